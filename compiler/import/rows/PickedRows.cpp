//===- PickedRows.cpp - which rows of which tensors count ---------------------------===//
#include "compiler/import/rows/PickedRows.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/fold/Fold.h"
#include "dialects/graph/Gradient.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using namespace mlir;

constexpr int64_t shapeElements = 64;    ///< as many as a shape may have dimensions
constexpr int evaluatedOperations = 256; ///< that make a shape of counts

Error zc::importer::rowsError(Operation *op, const Twine &what, StringRef help) {
  return unsupportedError(unsupportedForm, (op->getName().stripDialect() + " " + what).str(), {},
                          help.empty()
                              ? "rows that a mask picked keep their places in a plan: write it on all rows with "
                                "torch.where(mask, x, neutral element), or put them back first"
                              : help.str());
}

//===-- what is known of a tensor --------------------------------------------------===//

ArrayRef<RowMask> PickedRows::masksOf(Value value) const {
  auto found = infos.find(value);
  return found == infos.end() ? ArrayRef<RowMask>() : ArrayRef<RowMask>(found->second.masks);
}

const RowMask *PickedRows::maskAt(Value value, int64_t dim) const {
  ArrayRef<RowMask> masks = masksOf(value);
  return masks.empty() || !masks[dim] ? nullptr : &masks[dim];
}

const Places *PickedRows::placesOf(Value value) const {
  auto found = infos.find(value);
  return found == infos.end() || !found->second.places ? nullptr : &*found->second.places;
}

void PickedRows::countAs(Value made, Value like) {
  if (RowMasks masks(masksOf(like)); !masks.empty())
    infos[made].masks = std::move(masks);
}

bool PickedRows::countAs(Value made, const CountedShape &shape) {
  ArrayRef<int64_t> dims = graph::shapeOf(made);
  RowMasks masks(masksOf(made));
  masks.resize(dims.size());
  for (size_t k = 0, lead = dims.size() - shape.counted.size(); k < shape.counted.size(); ++k) {
    int64_t dim = static_cast<int64_t>(lead + k);
    if (!shape.counted[k])
      continue;
    bool fits = dims[dim] == shape.mask.size() && (masks[dim] ? areSame(masks[dim], shape.mask) : isUniform(made, dim));
    if (!fits)
      return false;
    masks[dim] = shape.mask;
  }
  infos[made].masks = std::move(masks);
  return true;
}

/// Are the elements along `dim` copies of one?
bool PickedRows::isUniform(Value value, int64_t dim, int depth) const {
  if (const HostTensor *known = constants.of(value))
    return known->stored() == 1;
  Operation *op = value.getDefiningOp();
  if (auto expand = dyn_cast_or_null<ExpandOp>(op)) {
    int64_t own = dim - (graph::tensorOf(value).getRank() - graph::tensorOf(expand.getInput()).getRank());
    return own < 0 || graph::shapeOf(expand.getInput())[own] == 1 || isUniform(expand.getInput(), own, depth);
  }
  bool isCopy = op && isElementwise(op) && op->getNumOperands() == 1;
  return isCopy && depth > 0 && isUniform(op->getOperand(0), dim, depth - 1);
}

//===-- masks as values ------------------------------------------------------------===//

Value PickedRows::builtOf(TensorBuilder &on, const RowMask &mask) {
  for (const auto &[known, value] : built)
    if (areSame(known, mask))
      return value;
  built.push_back({mask, buildMask(on, mask)});
  return built.back().second;
}

static Shape sizesOf(const RowMask &mask) {
  Shape sizes;
  for (const RowMask::Run &run : mask.runs)
    sizes.push_back(run.size);
  return sizes;
}

Value PickedRows::vectorOf(TensorBuilder &on, const RowMask &mask) {
  return on.reshape(on.expand(builtOf(on, mask), sizesOf(mask)), {mask.size()});
}

/// Along `dim` the elements of `yes` where the mask is true, else those of `no`, a tensor of its shape or a scalar. A
/// mask that is repeated is not written out for it.
Value PickedRows::chosen(TensorBuilder &on, const RowMask &mask, int64_t dim, Value yes, Value no) {
  ArrayRef<int64_t> whole = graph::shapeOf(yes);
  Shape sizes = sizesOf(mask), apart(whole.take_front(dim)), condition(dim, 1);
  apart.append(sizes.begin(), sizes.end());
  apart.append(whole.begin() + dim + 1, whole.end());
  Value value = builtOf(on, mask);
  condition.append(graph::shapeOf(value).begin(), graph::shapeOf(value).end());
  condition.resize(apart.size(), 1);
  bool isScalar = graph::shapeOf(no).empty();
  return on.reshape(
      on.select(on.reshape(value, condition), on.reshape(yes, apart), isScalar ? no : on.reshape(no, apart)), whole);
}

Value PickedRows::count(TensorBuilder &on, const RowMask &mask) {
  Type wide = IntegerType::get(mask.root.getContext(), 64);
  return on.reduceSum(on.make<CastOp>(vectorOf(on, mask), TypeAttr::get(wide)), {0}, /*keepdims=*/false);
}

/// `by` in the place of rows that do not count.
Value PickedRows::replaced(TensorBuilder &on, Value value, int64_t dim, const RowMask &mask, double by) {
  return chosen(on, mask, dim, value, on.scalar(by, value));
}

//===-- shapes ---------------------------------------------------------------------===//

Value PickedRows::shapeOf(Value value, Location loc) {
  TensorBuilder on(builder, loc);
  Type wide = IntegerType::get(loc.getContext(), 64);
  llvm::SmallVector<Value> numbers;
  for (int64_t dim = 0, rank = graph::tensorOf(value).getRank(); dim < rank; ++dim) {
    Value number;
    if (const RowMask *mask = maskAt(value, dim))
      number = on.reshape(count(on, *mask), {1});
    else
      number = on.make<ConstantOp>(
          DenseElementsAttr::get(RankedTensorType::get({1}, wide), IntegerAttr::get(wide, graph::shapeOf(value)[dim])));
    numbers.push_back(number);
  }
  return numbers.size() == 1 ? numbers[0] : on.make<ConcatOp>(numbers, uint64_t(0));
}

/// The number of elements of a bool tensor that are true: the tensor.
static Value countedBy(Operation *op) {
  auto sum = dyn_cast<ReduceSumOp>(op);
  auto cast = sum ? sum.getInput().getDefiningOp<CastOp>() : CastOp();
  bool isCount = cast && elementOf(cast.getInput()).isInteger(1) && isa<IntegerType>(elementOf(cast.getResult())) &&
                 sum.getResult().getType().getNumElements() == 1;
  return isCount ? cast.getInput() : Value();
}

/// `value` where `rows` count, all of them if nothing is said.
std::optional<HostTensor> PickedRows::evaluate(Value value, std::optional<int64_t> rows, RowMask &mask,
                                               int &budget) const {
  Operation *op = value.getDefiningOp();
  auto result = shapedLike(value.getType());
  if (!op || --budget < 0 || !result || result->numElements() > shapeElements)
    return std::nullopt;
  if (const HostTensor *known = constants.of(value))
    return *known;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return fromAttribute(constant.getValue());
  result->allocate();
  if (Value condition = countedBy(op)) {
    RowMask own = maskOf(condition);
    if (mask && !areSame(mask, own))
      return std::nullopt;
    mask = own;
    result->ints.assign(result->ints.size(), rows.value_or(own.size()));
    return result;
  }
  const Fold *fold = op->getNumResults() == 1 ? findFold(op->getName().getStringRef()) : nullptr;
  std::vector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    std::optional<HostTensor> known = fold ? evaluate(operand, rows, mask, budget) : std::nullopt;
    if (!known)
      return std::nullopt;
    operands.push_back(std::move(*known));
  }
  llvm::SmallVector<const HostTensor *> pointers;
  for (const HostTensor &operand : operands)
    pointers.push_back(&operand);
  std::string error;
  return fold && !pointers.empty() && fold->evaluate(op, pointers, *result, error) ? result : std::nullopt;
}

/// A number that is neither a multiple of the count nor independent of it (n / 2, min(n, 4)) is none that shapes of all
/// rows have. What it is for a few counts tells them apart.
std::optional<CountedShape> PickedRows::countedShape(Value value) const {
  CountedShape shape;
  int budget = evaluatedOperations;
  auto padded = evaluate(value, std::nullopt, shape.mask, budget);
  if (!padded || !shape.mask || padded->isFloat())
    return std::nullopt;
  const int64_t all = shape.mask.size(), elements = padded->numElements();
  shape.counted.assign(elements, false);
  llvm::SmallVector<bool> isMultiple(elements, true);
  for (int64_t rows : {all + 1, all - 1, all / 2, all / 2 + 1, int64_t(3), int64_t(1), int64_t(0)}) {
    budget = evaluatedOperations;
    auto other = evaluate(value, rows, shape.mask, budget);
    for (int64_t i = 0; i < elements; ++i) {
      if (!other)
        return std::nullopt;
      const int64_t now = other->intAt(i), before = padded->intAt(i);
      shape.counted[i] |= now != before;
      isMultiple[i] &= double(now) * double(all) == double(before) * double(rows);
    }
  }
  for (auto [isCounted, is] : llvm::zip(shape.counted, isMultiple))
    if (isCounted && !is)
      return std::nullopt;
  shape.padded = std::move(*padded);
  return shape;
}
