//===- Sharding.cpp - how operations are computed in parts: what they have in common ------===//
#include "dialects/graph/Sharding.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace zc::graph {

//===-- parts of tensors -----------------------------------------------------===//

bool dividesEvenly(ArrayRef<int64_t> shape, TensorCut cut, int64_t ranks) {
  return cut.dim >= 0 && cut.dim < int64_t(shape.size()) && cut.groups >= 1 && shape[cut.dim] > 0 &&
         shape[cut.dim] % cut.groups == 0 && shape[cut.dim] / cut.groups % ranks == 0;
}

RankedTensorType partType(RankedTensorType whole, TensorCut cut, int64_t ranks) {
  if (ranks < 1 || cut.dim < 0 || cut.dim >= whole.getRank())
    return {};
  Shape shape(whole.getShape());
  int64_t &size = shape[cut.dim];
  if (dividesEvenly(shape, cut, ranks)) {
    size /= ranks;
  } else {
    int64_t part = llvm::divideCeil(size, ranks);
    if (cut.groups != 1 || (ranks - 1) * part >= size) // the last rank has some of it
      return {};
    size = part;
  }
  return RankedTensorType::get(shape, whole.getElementType());
}

/// `shape` with dimension `cut.dim` as [groups, run].
static Shape apart(ArrayRef<int64_t> shape, TensorCut cut) {
  Shape result(shape);
  result[cut.dim] /= cut.groups;
  result.insert(result.begin() + cut.dim, cut.groups);
  return result;
}

/// Runs `change`, along the dimension that it is told, on what has one group.
static Value byGroups(TensorBuilder &on, Value value, TensorCut cut, function_ref<Value(Value, uint64_t)> change) {
  if (cut.groups == 1)
    return change(value, cut.dim);
  Value changed = change(on.reshape(value, apart(shapeOf(value), cut)), cut.dim + 1);
  Shape shape(shapeOf(changed));
  shape[cut.dim] *= shape[cut.dim + 1];
  shape.erase(shape.begin() + cut.dim + 1);
  return on.reshape(changed, shape);
}

Value slicePart(OpBuilder &builder, Location location, Value whole, TensorCut cut, int64_t ranks) {
  TensorBuilder on(builder, location);
  if (auto random = whole.getDefiningOp<RandomOp>(); random && !random.getRun()) { // draws no others
    NumbersOfRank numbers(random.getResult().getType(), cut, ranks);
    return on.make<RandomOp>(partType(random.getResult().getType(), cut, ranks), random.getId(), random.getNormal(),
                             numbers.run, numbers.stride);
  }
  return byGroups(on, whole, cut,
                  [&](Value value, uint64_t dim) { return on.make<AllSliceOp>(value, dim, uint64_t(ranks)); });
}

Value gatherParts(OpBuilder &builder, Location location, Value part, TensorCut cut, int64_t ranks) {
  TensorBuilder on(builder, location);
  return byGroups(on, part, cut,
                  [&](Value value, uint64_t dim) { return on.make<AllGatherOp>(value, dim, uint64_t(ranks)); });
}

Value scatterSum(OpBuilder &builder, Location location, Value addend, TensorCut cut, int64_t ranks) {
  TensorBuilder on(builder, location);
  return byGroups(on, addend, cut,
                  [&](Value value, uint64_t dim) { return on.make<ReduceScatterOp>(value, dim, uint64_t(ranks)); });
}

//===-- rules by letters -----------------------------------------------------===//

Value tensorAt(Operation *op, unsigned index) {
  unsigned operands = op->getNumOperands();
  return index < operands ? op->getOperand(index) : Value(op->getResult(index - operands));
}

Value rankOffset(TensorBuilder &on, Value like, int64_t rows) {
  Type scalar = RankedTensorType::get({}, elementOf(like));
  return on.make<RankOffsetOp>(TypeAttr::get(scalar), IntegerAttr::get(IntegerType::get(like.getContext(), 64), rows));
}

/// Row-major, a cut tensor is [outer, ranks, run].
NumbersOfRank::NumbersOfRank(RankedTensorType whole, TensorCut cut, int64_t ranks) {
  int64_t elements = whole.getDimSize(static_cast<unsigned>(cut.dim)) / cut.groups / ranks;
  for (int64_t dim : whole.getShape().drop_front(cut.dim + 1))
    elements *= dim;
  Type index = IntegerType::get(whole.getContext(), 64);
  run = IntegerAttr::get(index, elements);
  stride = IntegerAttr::get(index, elements * ranks);
}

Value placeInPart(TensorBuilder &on, Value place, int64_t rows, Value &inside) {
  Value zero = on.scalar(0, place);
  inside = on.make<AndOp>(on.make<LessEqualOp>(zero, place), on.less(place, on.scalar(double(rows), place)));
  return on.select(inside, place, zero);
}

OpCut wholeCut(Operation *op) {
  OpCut cut;
  cut.operands.resize(op->getNumOperands());
  cut.results.resize(op->getNumResults());
  return cut;
}

std::string lettersOf(Value tensor, char first) {
  std::string letters;
  for (int64_t i = 0, rank = tensorOf(tensor).getRank(); i < rank; ++i)
    letters.push_back(char(first + i));
  return letters;
}

std::string broadcastLetters(Value tensor, StringRef result) {
  return result.take_back(tensorOf(tensor).getRank()).str();
}

std::optional<OpCut> cutByFactors(Operation *op, const Factors &factors, unsigned index, TensorCut cut, int64_t ranks,
                                  std::string &why) {
  ArrayRef<int64_t> asked = shapeOf(tensorAt(op, index));
  char letter = factors.tensors[index][cut.dim];
  std::string name = op->getName().stripDialect().str();
  if (letter == '.') {
    why = name + " needs dimension " + std::to_string(cut.dim) + " of " + toText(asked) + " whole";
    return std::nullopt;
  }
  OpCut all = wholeCut(op);
  for (unsigned i = 0; i < factors.tensors.size(); ++i) {
    size_t dim = factors.tensors[i].find(letter);
    ArrayRef<int64_t> shape = shapeOf(tensorAt(op, i));
    if (dim == std::string::npos || (shape[dim] == 1 && asked[cut.dim] != 1))
      continue;
    TensorCut own{int64_t(dim), cut.groups};
    if (!dividesEvenly(shape, own, ranks) && (shape[dim] != asked[cut.dim] || cut.groups != 1)) {
      why = std::to_string(ranks) + " ranks do not divide " + std::to_string(shape[dim] / cut.groups) + " of " + name;
      return std::nullopt;
    }
    (i < op->getNumOperands() ? all.operands[i] : all.results[i - op->getNumOperands()]) = own;
  }
  bool isSum = factors.summed.find(letter) != std::string::npos;
  all.bearsPadding = factors.bearsPadding && !isSum;
  if (isSum) {
    all.behind = factors.behind;
    all.reducedBytes = double(bytesOf(tensorOf(op->getResult(0))));
  }
  return all;
}

std::optional<OpCut> cutElementwise(Operation *op, unsigned index, TensorCut cut, int64_t ranks, std::string &why) {
  Factors factors;
  factors.bearsPadding = op->hasTrait<BearsZeros>();
  std::string letters = lettersOf(op->getResult(0));
  for (Value operand : op->getOperands())
    factors.tensors.push_back(broadcastLetters(operand, letters));
  factors.tensors.append(op->getNumResults(), letters);
  return cutByFactors(op, factors, index, cut, ranks, why);
}

std::optional<OpCut> cutAlong(Operation *op, unsigned index, TensorCut cut, int64_t ranks, std::string &why) {
  if (auto sharded = dyn_cast<Shardable>(op))
    return sharded.cutAlong(index, cut, ranks, why);
  if (!isElementwise(op) || op->getNumRegions() != 0) {
    why = op->getName().stripDialect().str() + " is computed whole";
    return std::nullopt;
  }
  return cutElementwise(op, index, cut, ranks, why);
}

//===-- building -------------------------------------------------------------===//

Value sumOverRanks(TensorBuilder &on, Value part, Value bias, ArrayRef<int64_t> shape) {
  Value sum = on.make<AllReduceOp>(part, /*max=*/false);
  return bias ? on.add(sum, on.reshape(bias, shape)) : sum;
}

SmallVector<Value> buildOnParts(OpBuilder &builder, Operation *op, const OpCut &cut, ValueRange operands, int64_t ranks,
                                ArrayRef<NamedAttribute> changed) {
  NamedAttrList attributes(op->getAttrDictionary());
  for (NamedAttribute attribute : changed)
    attributes.set(attribute.getName(), attribute.getValue());
  SmallVector<Type> types;
  for (auto [result, own] : llvm::zip(op->getResults(), cut.results))
    types.push_back(own ? partType(tensorOf(result), *own, ranks) : tensorOf(result));
  OperationState state(op->getLoc(), op->getName(), operands, types, attributes);
  return SmallVector<Value>(builder.create(state)->getResults());
}

SmallVector<Value> buildSameOnParts(OpBuilder &builder, Operation *op, const OpCut &cut, ValueRange operands,
                                    int64_t ranks) {
  return buildOnParts(builder, op, cut, operands, ranks, {});
}

SmallVector<Value> buildParts(OpBuilder &builder, Operation *op, const OpCut &cut, ValueRange operands, int64_t ranks) {
  if (auto sharded = dyn_cast<Shardable>(op))
    return sharded.buildParts(builder, cut, operands, ranks);
  return buildSameOnParts(builder, op, cut, operands, ranks);
}

} // namespace zc::graph
