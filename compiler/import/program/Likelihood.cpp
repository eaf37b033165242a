//===- Likelihood.cpp - losses whose exponential is a perplexity --------------===//
#include "compiler/import/program/Likelihood.h"
#include "compiler/import/program/Samples.h"
#include "compiler/import/raise/Match.h"
#include "dialects/graph/ModuleAttrs.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

/// Is it computed from inputs of the step, and from nothing that is stored, as a number of labels is?
static bool comesWithBatch(Value value) {
  llvm::SetVector<Value> work;
  work.insert(value);
  bool readsInput = false;
  for (size_t i = 0; i < work.size(); ++i) {
    Operation *op = work[i].getDefiningOp();
    if (isa_and_nonnull<ReadOp>(op))
      return false;
    readsInput |= !op;
    if (op)
      work.insert(op->operand_begin(), op->operand_end());
  }
  return readsInput;
}

/// The cross-entropy whose loss is, up to casts and shapes, `loss`, where it is a mean over labels that are not
/// ignored.
static CrossEntropyOp meanOf(Value loss) {
  Operation *op = loss.getDefiningOp();
  while (op && (isa<CastOp>(op) || isView(op)))
    op = op->getOperand(0).getDefiningOp();
  auto entropy = dyn_cast_or_null<CrossEntropyOp>(op);
  bool ignores = entropy && static_cast<int64_t>(entropy.getIgnoreIndex()) != INT64_MIN;
  return ignores && !entropy.getSum() ? entropy : CrossEntropyOp();
}

static bool isLikelihood(Value loss) {
  double factor = 1;      // of what is looked at in the loss
  bool isCounted = false; // it is divided by a number that comes with the batch
  for (Value value = loss; Operation *op = value.getDefiningOp();) {
    if (auto entropy = dyn_cast<CrossEntropyOp>(op)) {
      if (value != entropy.getLoss() || (isCounted && !entropy.getSum()))
        return false;
      bool isWhole = entropy.getSum() && !isCounted;
      return isNear(factor * (isWhole ? double(tensorOf(entropy.getLabels()).getNumElements()) : 1), 1);
    }
    auto mul = dyn_cast<MulOp>(op);
    unsigned next = mul && splatOf(mul.getLhs()) ? 1 : 0;
    if (next >= op->getNumOperands() || tensorOf(op->getOperand(next)).getNumElements() != 1)
      return false;
    if (mul && splatOf(op->getOperand(1 - next)))
      factor *= *splatOf(op->getOperand(1 - next));
    else if (auto div = dyn_cast<DivOp>(op); div && splatOf(div.getRhs()))
      factor /= *splatOf(div.getRhs());
    else if (div && !isCounted && comesWithBatch(div.getRhs()))
      isCounted = true;
    else if (isa<NegOp>(op))
      factor = -factor;
    else if (!isa<CastOp, ReduceMeanOp, ReduceSumOp>(op) && !isView(op))
      return false;
    value = op->getOperand(next);
  }
  return false;
}

void zc::importer::markLikelihood(ProgramOp program) {
  std::optional<Outputs> outputs = outputsOf(program);
  if (!outputs || !outputs->loss)
    return;
  auto exit = cast<ReturnOp>(program.getBlock().getTerminator());
  Value loss = exit.getResults()[static_cast<size_t>(*outputs->loss)];
  outputs->likelihood = isLikelihood(loss);
  if (CrossEntropyOp entropy = meanOf(loss); entropy && outputs->likelihood)
    outputs->byLabels = computesSamplesApart(program, entropy);
  setOutputs(program, outputs);
}
