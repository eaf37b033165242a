//===- HoistReversals.cpp - parts of rows are turned around before element-wise operations --===//
//
// A rotary embedding adds to a head its halves in the other order, each times an angle. The gradient has the product
// first and turns its halves around then: two passes over memory before the sum. In the other order the one large
// factor is read where it is (fold-views), the tables of angles are turned around once for all layers, and products and
// sum are one program.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "compiler/grad/Reversal.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_HOISTREVERSALS
#include "compiler/grad/Passes.h.inc"

namespace {

class Hoister {
public:
  explicit Hoister(ProgramOp program) : program(program) {}

  int64_t run() {
    SmallVector<SliceOp> turns(program.getBlock().getOps<SliceOp>());
    int64_t hoisted = 0;
    for (SliceOp turn : turns)
      while ((turn = hoist(turn)))
        ++hoisted;
    return hoisted;
  }

private:
  /// The operand of an element-wise operation that alone is as large as its result; null where there is none, or others
  /// are not much smaller.
  static OpOperand *largeOperand(Operation *op, ArrayRef<int64_t> shape) {
    constexpr int64_t kSmaller = 8;
    auto kernel = dyn_cast_or_null<KernelOp>(op);
    if (!kernel || !isElementwise(op) || kernel.dependsOnMicroStep() || !op->hasOneUse() || op->getNumResults() != 1)
      return nullptr;
    OpOperand *large = nullptr;
    for (OpOperand &operand : op->getOpOperands()) {
      RankedTensorType type = tensorOf(operand.get());
      if (type.getShape() != shape) {
        if (type.getNumElements() * kSmaller > ShapedType::getNumElements(shape))
          return nullptr;
      } else if (large) {
        return nullptr;
      } else {
        large = &operand;
      }
    }
    return large;
  }

  static int64_t lastAxis(Value value) { return tensorOf(value).getRank() - 1; }

  /// A table, where it is made, once. Rows of one element are alike in any order.
  Value turnedTable(Location location, Value table, int64_t parts) {
    ArrayRef<int64_t> shape = shapeOf(table);
    if (shape.empty() || shape.back() == 1)
      return table;
    Value &made = tables[{table, parts}];
    if (!made) {
      OpBuilder builder(table.getContext());
      builder.setInsertionPointAfterValue(table);
      made = TensorBuilder(builder, location).turnParts(table, lastAxis(table), parts);
    }
    return made;
  }

  /// Turns what the operation before reads instead of what it makes; gives the slice that does, null: that cannot be.
  SliceOp hoist(SliceOp turn) {
    std::optional<Reversal> reversal = reversalOf(turn);
    Operation *op = reversal ? reversal->input.getDefiningOp() : nullptr;
    OpOperand *large = reversal ? largeOperand(op, shapeOf(reversal->input)) : nullptr;
    if (!large)
      return {};
    OpBuilder builder(op);
    IRMapping operands;
    for (Value operand : op->getOperands())
      if (operand != large->get())
        operands.map(operand, turnedTable(op->getLoc(), operand, reversal->parts));
    Value around =
        TensorBuilder(builder, turn.getLoc()).turnParts(large->get(), lastAxis(large->get()), reversal->parts);
    operands.map(large->get(), around);
    reversal->result.replaceAllUsesWith(builder.clone(*op, operands)->getResult(0));
    for (Operation *dead : {reversal->result.getDefiningOp(), turn.getOperation(), turn.getInput().getDefiningOp(), op})
      dead->erase();
    return around.getDefiningOp<ReshapeOp>().getInput().getDefiningOp<SliceOp>();
  }

  ProgramOp program;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> tables;
};

struct HoistReversals : StagePass<impl::HoistReversalsBase<HoistReversals>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.views == Views::off)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getPhase() != Phase::update)
        hoisted += Hoister(program).run();
  }
};

} // namespace

std::unique_ptr<Pass> createHoistReversals(const GradStage &options) {
  return std::make_unique<HoistReversals>(options);
}

} // namespace zc
