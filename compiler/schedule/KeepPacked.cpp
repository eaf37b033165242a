//===- KeepPacked.cpp - what kernels make of weights stays over micro-steps ---------------===//
//
// A product rearranges its right factor into the order in which the processor multiplies it. The fewer rows a
// micro-step has, the larger a part of its time that is; and weights are the same in all micro-steps of a step.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Placement.h"
#include "dialects/graph/KernelSpec.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/plan/FreeNames.h"
#include "dialects/zero/Execution.h"
#include "runtime/plan/Tiers.h"

#include <limits>

namespace zc {
#define GEN_PASS_DEF_KEEPPACKED
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

struct KeepPackedPass : StagePass<impl::KeepPackedBase<KeepPackedPass>, ScheduleOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const zero::Execution execution = zero::executionOf(module);
    graph::ProgramOp micro = graph::programOf(module, graph::Phase::micro);
    for (auto found : module.getOps<plan::ArenaOp>())
      if (found.getTier() == plan::Tier::device)
        arena = found;
    if (options.keepPacked == KeepPacked::off || execution.accumulation < 2 || execution.vertical || !micro || !arena)
      return markAllAnalysesPreserved();
    for (auto symbol : module.getOps<SymbolOpInterface>())
      names.take(symbol.getName());
    for (auto slice : module.getOps<plan::SliceOp>())
      if (slice.getPersistent() && slice.getKlass() == plan::Class::parameters)
        staying.insert(FlatSymbolRefAttr::get(slice.getSymNameAttr()));
    for (Operation &op : micro.getBlock())
      if (isa<graph::KernelOp>(op))
        keep(&op);
  }

private:
  void keep(Operation *op) {
    const KeptInput kept = graph::keptInput(op, graph::targetOf(getOperation()));
    if (kept.bytes == 0)
      return;
    const plan::OperandAttr input = placement::placeOf(op->getOperand(static_cast<unsigned>(kept.input)));
    if (!staying.contains(input.getSlice()))
      return;
    Builder builder(&getContext());
    SmallVector<mlir::Attribute> key{input, builder.getStringAttr(op->getName().getStringRef()),
                                     builder.getDictionaryAttr(graph::kernelAttributes(op))};
    for (Type type : op->getOperandTypes())
      key.push_back(TypeAttr::get(type));
    FlatSymbolRefAttr &slice = slices[builder.getArrayAttr(key)];
    if (!slice && !(slice = makeSlice(op->getLoc(), kept.bytes)))
      return;
    auto bytes = RankedTensorType::get({kept.bytes}, builder.getIntegerType(8, /*isSigned=*/false));
    op->setDiscardableAttr(placement::kKept, plan::OperandAttr::get(&getContext(), plan::Access::read_write, slice, 0,
                                                                    ArrayRef<int64_t>(), bytes));
    op->setDiscardableAttr(placement::kKeptInput, builder.getI64IntegerAttr(static_cast<int64_t>(kept.input)));
    ++numKept;
  }

  /// Behind all that programs work in: an update may still do so when the next step begins. Null: there is no room.
  FlatSymbolRefAttr makeSlice(Location loc, int64_t bytes) {
    const int64_t budget = options.budgets.device > 0 ? options.budgets.device : std::numeric_limits<int64_t>::max();
    const auto begin = static_cast<int64_t>(
        llvm::alignTo(static_cast<uint64_t>(arena.getBytes()), sliceAlignment(planpb::Tier::DEVICE)));
    if (begin > budget || bytes > budget - begin)
      return {};
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(arena);
    auto slice = builder.create<plan::SliceOp>(
        loc, builder.getStringAttr(names.next("kept" + std::to_string(slices.size() - 1))),
        FlatSymbolRefAttr::get(arena), builder.getI64IntegerAttr(begin), builder.getI64IntegerAttr(bytes),
        plan::ClassAttr::get(&getContext(), plan::Class::buffers), UnitAttr(), plan::MetricAttr());
    arena.setBytes(begin + bytes);
    return FlatSymbolRefAttr::get(slice.getSymNameAttr());
  }

  plan::ArenaOp arena; ///< the device's
  plan::FreeNames names;
  DenseMap<mlir::Attribute, FlatSymbolRefAttr> slices; ///< by operation and place of the input; null: no room
  /// Slices that hold the same through a step's micro-steps: an update comes after them. What is gathered or fetched is
  /// elsewhere each time.
  DenseSet<mlir::Attribute> staying;
};

} // namespace

std::unique_ptr<Pass> createKeepPacked(const ScheduleOptions &options) {
  return std::make_unique<KeepPackedPass>(options);
}

} // namespace zc
