#include "dialects/graph/Infer.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace zc::graph {

std::string toText(ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, "x");
  return text;
}

std::string toText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << "'" << type << "'";
  return text;
}

Type statisticsType(Type element) { return element.isF64() ? element : Type(Float32Type::get(element.getContext())); }

std::optional<Shape> broadcastShapes(ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  if (lhs.size() < rhs.size())
    std::swap(lhs, rhs);
  Shape shape(lhs);
  size_t lead = lhs.size() - rhs.size();
  for (size_t i = 0; i < rhs.size(); ++i) {
    int64_t &dim = shape[lead + i];
    if (dim == 1)
      dim = rhs[i];
    else if (rhs[i] != 1 && rhs[i] != dim)
      return std::nullopt;
  }
  return shape;
}

LogicalResult Infer::result(ArrayRef<int64_t> shape, Type element) {
  if (failed(checkTensor(shape, element)))
    return failure();
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

LogicalResult Infer::checkTensor(ArrayRef<int64_t> shape, Type element) const {
  // 2^48 elements of 8 bytes still have a byte count, and offsets, that fit int64_t with room for sums of them.
  constexpr int64_t limit = int64_t(1) << 48;
  int64_t elements = 1;
  for (int64_t dim : shape)
    if (dim < 0)
      return error("[shape_c1] dimension " + Twine(dim) + " of " + toText(shape) + " is negative");
  if (!llvm::is_contained(shape, 0))
    for (int64_t dim : shape)
      if (llvm::MulOverflow(elements, dim, elements) || elements >= limit)
        return error("[shape_c2] shape " + toText(shape) + " has 2^48 elements or more");
  if (!TensorType::isValidElementType(element))
    return error("[shape_c3] " + toText(element) + " is no element type of a tensor");
  return success();
}

LogicalResult Infer::sameElement(RankedTensorType lhs, RankedTensorType rhs) const {
  if (lhs.getElementType() == rhs.getElementType())
    return success();
  return error("[element_c1] element types " + toText(lhs.getElementType()) + " and " + toText(rhs.getElementType()) +
               " differ");
}

LogicalResult Infer::axisInRank(int64_t axis, int64_t rank) const {
  if (axis >= 0 && axis < rank)
    return success();
  return error("[axis_c1] axis " + Twine(axis) + " is outside rank " + Twine(rank));
}

LogicalResult Infer::numbersOfPart(std::optional<uint64_t> run, std::optional<uint64_t> stride) const {
  if (run ? static_cast<int64_t>(*run) > 0 && static_cast<int64_t>(stride.value_or(0)) >= static_cast<int64_t>(*run)
          : !stride)
    return success();
  return error("[random_c2] `run` > 0 goes with `stride` >= run");
}

LogicalResult Infer::hasShape(StringRef label, StringRef name, Value value, ArrayRef<int64_t> expected) const {
  if (shapeOf(value) == expected)
    return success();
  return error("[" + label + "] " + name + " has shape " + toText(shapeOf(value)) + ", not " + toText(expected));
}

LogicalResult Infer::isType(StringRef label, StringRef name, Type type, Type expected) const {
  if (type == expected)
    return success();
  return error("[" + label + "] " + name + " has type " + toText(type) + ", not " + toText(expected));
}

} // namespace zc::graph
