//===- SplitSums.cpp - operations that sum first, as sums and element-wise work ---------------===//
//
// A batch norm reads its input for the statistics, then again to write its result, which a relu reads to write another.
// What is left of it without the sums is element-wise, and joins the relu's program (fuse-elementwise).
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_SPLITSUMS
#include "compiler/grad/Passes.h.inc"

namespace {

/// Is the value a few element-wise operations on one tensor, so that it can be computed for the sums and once more with
/// them? Counts the operations, which nobody else reads, and tensors that are for this alone.
bool isQuicklyMade(Value value, ArrayRef<int64_t> shape, int &operations, int &tensors) {
  constexpr int kOperations = 4;
  Operation *maker = value.getDefiningOp();
  if (shapeOf(value) != shape || !value.hasOneUse() || isa_and_nonnull<ConstantOp>(maker))
    return true;
  if (!maker || !isElementwise(maker) || operations == kOperations)
    return ++tensors <= 1;
  ++operations;
  return llvm::all_of(maker->getOperands(),
                      [&](Value operand) { return isQuicklyMade(operand, shape, operations, tensors); });
}

/// Is there element-wise work on tensors of its first result's shape around `op`, which its own could join: on what it
/// gives, or before its first operand, which sums apart take as a program (those of a group norm's gradient do not:
/// what is before them is stored either way, and splitting for their sake saves nothing)?
bool hasCompany(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  if (llvm::any_of(op->getResult(0).getUsers(), [&](Operation *user) {
        return isElementwise(user) && user->getNumResults() == 1 && shapeOf(user->getResult(0)) == shape;
      }))
    return true;
  int operations = 0, tensors = 0;
  return isQuicklyMade(op->getOperand(0), shape, operations, tensors) && operations > 0;
}

struct SplitSums : StagePass<impl::SplitSumsBase<SplitSums>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse != Fuse::on)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto op : llvm::make_early_inc_range(program.getBlock().getOps<Separable>())) {
        if (!hasCompany(op))
          continue;
        OpBuilder builder(op);
        SmallVector<Value> results = op.buildApart(builder);
        if (results.empty())
          continue;
        op->replaceAllUsesWith(results);
        op->erase();
        ++split;
      }
  }
};

} // namespace

std::unique_ptr<Pass> createSplitSums(const GradStage &options) { return std::make_unique<SplitSums>(options); }

} // namespace zc
