//===- Samples.cpp - whether samples are computed apart ------------------------===//
#include "compiler/import/program/Samples.h"
#include "dialects/graph/Cut.h"

using namespace mlir;
using namespace zc::graph;

namespace {

/// Follows the samples of a batch from the inputs on, as a model axis of one rank per sample would.
class SampleWalk {
public:
  explicit SampleWalk(int64_t samples) : samples(samples) {}

  void begin(BlockArgument input) {
    auto type = cast<RankedTensorType>(input.getType());
    if (type.getRank() > 0 && type.getDimSize(0) == samples)
      cuts[input] = TensorCut{0, 1};
  }
  void visit(Operation &op);
  /// One sample's rows stand together, and are of it alone.
  bool isApart(Value value) const {
    auto found = cuts.find(value);
    return found != cuts.end() && found->second == TensorCut{0, 1};
  }

private:
  bool isCut(Value value) const { return cuts.count(value) != 0; }
  /// A lookup by constants in a table of all samples' rows, of each sample in its own: `mask[batch, ..., position]` as
  /// exporters flatten it.
  bool picksOwn(Operation &op) const;
  /// Elements of each sample are written at constant places, of each in its own row: `shifted[:, 1:] = labels[:, :-1]`.
  bool putsOwn(Operation &op) const;
  /// Nothing of it is of another sample: it is cut, or of no sample.
  bool isClean(Value value) const { return isApart(value) || (!isCut(value) && !mixed.contains(value)); }
  /// Does `op` compute on parts, with operands as they are cut by now, and without a sum over samples?
  bool follows(Operation &op, unsigned first, std::optional<OpCut> &found);

  int64_t samples;
  DenseMap<Value, TensorCut> cuts; ///< of what has a part for each sample
  DenseSet<Value> mixed;           ///< of what several samples have a part in, or may have
};

bool SampleWalk::follows(Operation &op, unsigned first, std::optional<OpCut> &found) {
  std::string why;
  found = cutAlong(&op, first, cuts.find(op.getOperand(first))->second, samples, why);
  if (!found || found->reducedBytes > 0 || !found->behind.empty())
    return false;
  for (auto [operand, cut] : llvm::zip(op.getOperands(), found->operands)) {
    auto own = cuts.find(operand);
    if (own != cuts.end() && (!cut || *cut != own->second))
      return false;
  }
  return true;
}

bool SampleWalk::picksOwn(Operation &op) const {
  auto gather = dyn_cast<GatherOp>(op);
  if (!gather || gather.getAxis() != 0 || !isApart(gather->getOperand(0)))
    return false;
  auto constant = gather->getOperand(1).getDefiningOp<ConstantOp>();
  auto places = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  if (!places || places.getType().getRank() == 0 || places.getType().getDimSize(0) != samples)
    return false;
  const int64_t rows = cast<RankedTensorType>(gather->getOperand(0).getType()).getDimSize(0) / samples;
  const int64_t each = places.getNumElements() / samples;
  int64_t at = 0;
  return llvm::all_of(places.getValues<APInt>(), [&](const APInt &place) {
    return place.getSExtValue() >= 0 && place.getSExtValue() / rows == at++ / each;
  });
}

bool SampleWalk::putsOwn(Operation &op) const {
  auto scatter = dyn_cast<ScatterNdOp>(op);
  if (!scatter || !isClean(scatter->getOperand(0)) || !isClean(scatter->getOperand(2)))
    return false;
  auto constant = scatter->getOperand(1).getDefiningOp<ConstantOp>();
  auto places = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  auto into = cast<RankedTensorType>(scatter->getOperand(0).getType());
  if (!places || places.getType().getRank() < 2 || places.getType().getDimSize(0) != samples ||
      into.getDimSize(0) != samples)
    return false;
  const int64_t each = places.getNumElements() / samples, width = places.getType().getShape().back();
  int64_t at = 0;
  return llvm::all_of(places.getValues<APInt>(), [&](const APInt &place) {
    const int64_t own = at / each;
    return at++ % width != 0 || place.getSExtValue() == own; // the first coordinate is the sample
  });
}

void SampleWalk::visit(Operation &op) {
  if (picksOwn(op) || putsOwn(op)) {
    cuts[op.getResult(0)] = TensorCut{0, 1};
    return;
  }
  std::optional<unsigned> first;
  bool isMixed = false;
  for (OpOperand &operand : op.getOpOperands()) {
    isMixed |= mixed.contains(operand.get());
    if (!first && isCut(operand.get()))
      first = operand.getOperandNumber();
  }
  std::optional<OpCut> found;
  isMixed = isMixed || (first && !follows(op, *first, found));
  for (auto [index, result] : llvm::enumerate(op.getResults()))
    if (isMixed || (found && !found->results[index]))
      mixed.insert(result);
    else if (found)
      cuts[result] = *found->results[index];
}

} // namespace

bool zc::importer::computesSamplesApart(ProgramOp program, CrossEntropyOp entropy) {
  ArrayRef<BlockArgument> inputs = program.getBlock().getArguments();
  if (inputs.empty() || cast<RankedTensorType>(inputs[0].getType()).getRank() == 0)
    return false;
  SampleWalk walk(cast<RankedTensorType>(inputs[0].getType()).getDimSize(0));
  for (BlockArgument input : inputs)
    walk.begin(input);
  for (Operation &op : program.getBlock()) {
    if (&op == entropy.getOperation())
      return walk.isApart(entropy.getLogits()) && walk.isApart(entropy.getLabels());
    walk.visit(op);
  }
  return false;
}
