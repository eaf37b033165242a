//===- SplitRows.cpp - programs on the parts of rows, where they read these backwards ---------------===//
#include "compiler/grad/Passes.h"
#include "compiler/grad/Reversal.h"
#include "dialects/graph/Gradient.h"
#include "dialects/graph/View.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_SPLITROWS
#include "compiler/grad/Passes.h.inc"

namespace {

/// The last dimension as `parts`; one element stays one, and broadcasts.
Shape splitShape(ArrayRef<int64_t> shape, int64_t parts) {
  Shape split(shape);
  if (split.empty())
    return split;
  const int64_t row = split.back();
  split.back() = row == 1 ? 1 : parts;
  split.push_back(row == 1 ? 1 : row / parts);
  return split;
}

/// In how many parts the program would see rows without copying them; nothing: it reads none backwards.
std::optional<int64_t> partsReadBackwards(FusedOp op) {
  for (OpOperand &operand : op->getOpOperands()) {
    auto together = operand.get().getDefiningOp<ReshapeOp>();
    auto turn = together ? together.getInput().getDefiningOp<SliceOp>() : SliceOp();
    auto reversal = turn ? reversalOf(turn) : std::nullopt;
    if (!reversal || shapeOf(operand.get()) != shapeOf(op.getResult(0)))
      continue;
    const auto all = StridedView::whole(0, shapeOf(turn.getInput()).vec());
    if (op.takesView(operand.getOperandNumber(),
                     all.sliced(turn.getOffsets().vec(), turn.getSizes().vec(), turn.getStrides().vec())))
      return reversal->parts;
  }
  return std::nullopt;
}

/// A tensor of which `value` is another name.
Value seenAs(TensorBuilder &on, Value value, ArrayRef<int64_t> shape) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  return on.reshape(reshape && shapeOf(reshape.getInput()) == shape ? reshape.getInput() : value, shape);
}

void split(FusedOp op, int64_t parts) {
  OpBuilder builder(op);
  TensorBuilder on(builder, op.getLoc());
  SmallVector<Value> operands;
  for (Value operand : op.getInputs())
    operands.push_back(seenAs(on, operand, splitShape(shapeOf(operand), parts)));
  SmallVector<Type> types;
  for (Value result : op.getResults())
    types.push_back(tensorOf(result).clone(splitShape(shapeOf(result), parts)));
  auto made = on.create<FusedOp>(types, operands, op.getProgramAttr(), ViewsAttr());
  for (auto [result, part] : llvm::zip(op.getResults(), made.getResults()))
    result.replaceAllUsesWith(on.reshape(part, shapeOf(result)));
  op.erase();
}

struct SplitRows : StagePass<impl::SplitRowsBase<SplitRows>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.views == Views::off)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>()) {
      if (program.getPhase() == Phase::update)
        continue;
      for (auto op : llvm::make_early_inc_range(program.getBlock().getOps<FusedOp>()))
        if (std::optional<int64_t> parts = op.getViewsAttr() ? std::nullopt : partsReadBackwards(op))
          split(op, *parts);
    }
  }
};

} // namespace

std::unique_ptr<Pass> createSplitRows(const GradStage &options) { return std::make_unique<SplitRows>(options); }

} // namespace zc
