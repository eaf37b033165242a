//===- ForwardOnly.cpp - a step that trains nothing ----------------------------===//
#include "compiler/grad/Passes.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FORWARDONLY
#include "compiler/grad/Passes.h.inc"

namespace {
struct ForwardOnly : impl::ForwardOnlyBase<ForwardOnly> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto programs = module.getOps<ProgramOp>();
    if (!llvm::hasSingleElement(programs) || (*programs.begin()).getPhase() != Phase::micro ||
        llvm::any_of(module.getOps<ParameterOp>(), [](ParameterOp p) { return p.getRole() == Role::trainable; })) {
      module.emitError("forward-only needs one program, of phase 'micro', and no trainable parameter");
      return signalPassFailure();
    }
    if (failed(handOver(*programs.begin())))
      return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto update = builder.create<ProgramOp>(module.getLoc(), "update", Phase::update, builder.getStrArrayAttr({}));
    builder.createBlock(&update.getBody());
    builder.create<ReturnOp>(module.getLoc(), ValueRange());
    module->setAttr("zc.forward_only", builder.getUnitAttr());
  }

private:
  /// Each value is handed over where it is made, so that its bytes are needed no longer than by its other users.
  LogicalResult handOver(ProgramOp program) {
    auto exit = cast<ReturnOp>(program.getBlock().getTerminator());
    auto names = program->getAttrOfType<ArrayAttr>("zc.output_names");
    if (exit.getResults().empty() || !names || names.size() != exit.getResults().size())
      return exit.emitOpError("needs a name in 'zc.output_names' for each result, and at least one");
    auto kinds = [&](size_t index) {
      auto is = [&](StringRef attribute) {
        auto known = program->getAttrOfType<IntegerAttr>(attribute);
        return known && known.getInt() == static_cast<int64_t>(index);
      };
      return is("zc.loss_output")     ? OutputKind::loss
             : is("zc.weight_output") ? OutputKind::loss_weight
                                      : OutputKind::value;
    };
    OpBuilder builder(exit);
    for (auto [index, value, name] : llvm::enumerate(exit.getResults(), names.getAsRange<StringAttr>())) {
      if (Operation *maker = value.getDefiningOp())
        builder.setInsertionPointAfter(maker);
      else
        builder.setInsertionPointToStart(&program.getBlock());
      builder.create<OutputOp>(value.getLoc(), value, name.getValue(), kinds(index));
      ++outputs;
    }
    exit.getResultsMutable().clear();
    exit.setWeighted(false);
    for (StringRef attribute : {"zc.output_names", "zc.loss_output", "zc.weight_output"})
      program->removeAttr(attribute);
    return success();
  }
};
} // namespace

} // namespace zc
