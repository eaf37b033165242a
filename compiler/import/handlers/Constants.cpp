//===- Constants.cpp - values that stand in the file or follow from shapes ----===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

#include <cmath>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

void constant(Node &node) {
  if (const onnxpb::Tensor *tensor = node.tensorAttr("value"))
    return node.set(node.ownTensor(*tensor));
  if (node.hasAttr("value_float"))
    return node.set(node.constant(HostTensor::scalar(node.floatAttr("value_float", 0), DType::f32)));
  if (node.hasAttr("value_int")) {
    HostTensor scalar = HostTensor::ofInts(node.intAttr("value_int", 0));
    scalar.dims.clear();
    return node.set(node.constant(scalar));
  }
  if (node.hasAttr("value_ints"))
    return node.set(node.constant(HostTensor::ofInts(node.intsAttr("value_ints"))));
  if (node.hasAttr("value_floats")) {
    auto values = node.floatsAttr("value_floats");
    HostTensor tensor;
    tensor.dtype = DType::f32;
    tensor.dims = {static_cast<int64_t>(values.size())};
    tensor.floats.assign(values.begin(), values.end());
    return node.set(node.constant(tensor));
  }
  if (node.proto.attribute_size() == 0)
    return node.invalid("has no value");
  node.unsupported("attribute '" + node.proto.attribute(0).name() + "'");
}

/// A splat constant of any size, so that it costs nothing. Of as many rows as a mask picks, it has those.
void constantOfShape(Node &node) {
  auto shape = node.constantInts(0);
  HostTensor value = node.elementAttr("value", HostTensor::scalar(0, DType::f32));
  if (node.failed())
    return;
  Value made = node.expand(node.constant(value), shape);
  const CountedShape *counted = node.countedAt(0);
  if (counted && !node.failed() && !node.pickedRows().countAs(made, *counted))
    return node.unsupported(countsNothing);
  node.set(made);
}

/// Does `value` have as many rows as a mask picks in one of these dimensions?
bool isCounted(Node &node, Value value, int64_t start, int64_t end) {
  auto masks = node.pickedRows().masksOf(value);
  for (int64_t d = start; d < end && !masks.empty(); ++d)
    if (masks[d])
      return true;
  return false;
}

void shape(Node &node) {
  auto dims = dimsOf(node.input(0));
  int64_t rank = dims.size();
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  int64_t start = clamp(node.intAttr("start", 0)), end = clamp(node.intAttr("end", rank));
  if (isCounted(node, node.input(0), start, end))
    return node.set(node.slice(node.pickedRows().shapeOf(node.input(0), node.loc), 0, start, end - start));
  node.set(node.constant(HostTensor::ofInts(dims.slice(start, std::max<int64_t>(end - start, 0)))));
}

void size(Node &node) {
  int64_t elements = 1;
  for (int64_t d : dimsOf(node.input(0)))
    elements *= d;
  if (isCounted(node, node.input(0), 0, rankOf(node.input(0))))
    return node.set(
        node.make<ReduceProdOp>({node.pickedRows().shapeOf(node.input(0), node.loc)}, node.attrs().ints("axes", {0})));
  HostTensor scalar = HostTensor::ofInts(elements);
  scalar.dims.clear();
  node.set(node.constant(scalar));
}

void range(Node &node) {
  double values[3];
  for (unsigned i = 0; i < 3; ++i)
    values[i] = node.constantFloat(i);
  if (node.failed())
    return;
  if (values[2] == 0)
    return node.invalid("delta is 0");
  double count = std::ceil((values[1] - values[0]) / values[2]);
  if (!(count < 281474976710656.0)) // 2^48; also NaN
    return node.invalid("has too many elements");
  auto type = mlir::RankedTensorType::get({count > 0 ? static_cast<int64_t>(count) : 0}, elementOf(node.input(0)));
  node.set(node.make<IotaOp>({}, node.attrs().type("type", type).real("start", values[0]).real("delta", values[2])));
}

/// depth classes along `axis`: values[1] where the index says so, values[0] elsewhere. Indices of any type are integers
/// of 64 bits first: those of 8 could not count as many classes.
void oneHot(Node &node) {
  Expr indices = Expr(node, node.input(0)).cast(mlir::IntegerType::get(node.loc.getContext(), 64));
  Value values = node.input(2);
  int64_t depth = static_cast<int64_t>(node.constantFloat(1)), rank = rankOf(indices) + 1;
  int64_t axis = node.axis(node.intAttr("axis", -1), rank);
  if (!node.failed() && dimsOf(values) != llvm::ArrayRef<int64_t>{2})
    node.invalid("values has shape " + shapeText(dimsOf(values)) + ", not [2]");
  if (!node.failed() && depth < 1)
    node.invalid("depth is " + std::to_string(depth));
  if (node.failed())
    return;
  llvm::SmallVector<int64_t> indexShape(dimsOf(indices)), classShape(rank, 1);
  indexShape.insert(indexShape.begin() + axis, 1);
  classShape[axis] = depth;
  Value classes = node.iota(depth, indices.element());
  if (node.opset >= 11) // from there on negative indices count from the end
    indices = (indices + static_cast<double>(depth)).where(indices.apply<LessOp>(0.0), indices);
  Value hit = node.make<EqualOp>({node.reshape(indices, indexShape), node.reshape(classes, classShape)});
  auto pick = [&](int64_t i) {
    return node.reshape(
        node.make<SliceOp>({values}, node.attrs().ints("offsets", {i}).ints("sizes", {1}).ints("strides", {1})), {});
  };
  node.set(node.make<SelectOp>({hit, pick(1), pick(0)}));
}

/// Ones on the diagonal `k` of a zero matrix of the input's shape.
void eyeLike(Node &node) {
  Value x = node.input(0);
  int64_t k = node.intAttr("k", 0), to = node.intAttr("dtype", 0);
  if (rankOf(x) != 2)
    return node.invalid("input has rank " + std::to_string(rankOf(x)) + ", not 2");
  auto dtype =
      node.hasAttr("dtype") ? dtypeOfOnnx(to >= 0 && to < 256 ? static_cast<int32_t>(to) : 0) : dtypeOf(elementOf(x));
  if (!dtype)
    return node.unsupported("of element type " + onnxTypeName(static_cast<int32_t>(to)));
  auto i64 = mlir::IntegerType::get(node.loc.getContext(), 64);
  if (k < -(int64_t(1) << 48) || k > (int64_t(1) << 48))
    return node.invalid("k is " + std::to_string(k));
  Value row = node.reshape(node.iota(dimsOf(x)[0], i64, k), {dimsOf(x)[0], 1}), column = node.iota(dimsOf(x)[1], i64);
  node.set(node.cast(node.make<EqualOp>({row, column}), typeOf(*dtype, node.loc.getContext())));
}

/// Cosine windows: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), n counted to `size`.
template <int a0, int a1, int a2> void window(Node &node) {
  int64_t size = node.constantInt(0), to = node.intAttr("output_datatype", 1);
  auto dtype = dtypeOfOnnx(to >= 0 && to < 256 ? static_cast<int32_t>(to) : 0);
  if (!node.failed() && (size < 0 || size > node.options().limits.foldedElements || !dtype))
    node.unsupported("size " + std::to_string(size) + " of element type " + onnxTypeName(static_cast<int32_t>(to)));
  if (node.failed())
    return;
  double length = node.intAttr("periodic", 1) != 0 ? size : size - 1;
  HostTensor values;
  values.dtype = DType::f64;
  values.dims = {size};
  for (int64_t n = 0; n < size; ++n) {
    double angle = 2 * 3.14159265358979323846 * static_cast<double>(n) / length;
    // Hamming's coefficients are 25/46 and 21/46.
    double scale = a0 == 25 ? 46 : 100;
    values.floats.push_back((a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle)) / scale);
  }
  node.set(node.cast(node.constant(values), typeOf(*dtype, node.loc.getContext())));
}

/// Keeps the lower or upper triangle of the last two dimensions, zero elsewhere.
void trilu(Node &node) {
  Value x = node.input(0);
  int64_t k = node.has(1) ? node.constantInt(1) : 0, rank = rankOf(x);
  if (rank < 2 && !node.failed())
    node.invalid("input has rank " + std::to_string(rank));
  if (node.failed())
    return;
  int64_t rows = dimsOf(x)[rank - 2], columns = dimsOf(x)[rank - 1];
  k = std::clamp(k, -rows, columns); // beyond which nothing changes
  auto i64 = mlir::IntegerType::get(node.loc.getContext(), 64);
  auto count = [&](int64_t n, int64_t start) {
    auto type = mlir::RankedTensorType::get({n}, i64);
    return node.make<IotaOp>({}, node.attrs().type("type", type).real("start", start).real("delta", 1));
  };
  Value row = node.reshape(count(rows, k), {rows, 1}), column = count(columns, 0);
  bool upper = node.intAttr("upper", 1) != 0;
  Value keep = upper ? node.make<LessEqualOp>({row, column}) : node.make<LessEqualOp>({column, row});
  node.set(node.make<SelectOp>({keep, x, node.scalar(0, elementOf(x))}));
}

/// What `zero export` writes for torch's detach.
void detach(Node &node) { node.set(Expr(node, node.input(0)).detached()); }

/// torch.export writes a detach as an identity.
void identity(Node &node) {
  Binding binding = node.binding(0);
  if (isFloat(binding.value) && node.tracedCall("aten.detach"))
    return detach(node);
  node.setBinding(0, binding);
  node.standFor(0, 0);
}

} // namespace

void zc::importer::addConstantHandlers(HandlerTable &table) {
  table.add("Constant", 1, 0, 0, constant);
  table.add("ConstantOfShape", 9, 1, 1, constantOfShape, {{0, "shape", nullptr, true}});
  table.add("Shape", 1, 1, 1, shape);
  table.add("Size", 1, 1, 1, size);
  table.add("Range", 11, 3, 3, range, {{0, "start"}, {1, "limit"}, {2, "delta"}});
  table.add("OneHot", 9, 3, 3, oneHot, {{1, "depth"}});
  table.add("EyeLike", 9, 1, 1, eyeLike);
  table.add("HannWindow", 17, 1, 1, window<50, 50, 0>, {{0, "size"}});
  table.add("HammingWindow", 17, 1, 1, window<25, 21, 0>, {{0, "size"}});
  table.add("BlackmanWindow", 17, 1, 1, window<42, 50, 8>, {{0, "size"}});
  table.add("Trilu", 14, 1, 2, trilu, {{1, "k"}});
  table.add("", "Identity", {1, 0, 1, identity, true});
  table.add("zero", "Detach", {1, 1, 1, detach});
}
