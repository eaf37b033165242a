//===- ForwardOnly.cpp - a step that trains nothing ----------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/ModuleAttrs.h"

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
    auto update = builder.create<ProgramOp>(module.getLoc(), freeProgramName(module, Phase::update), Phase::update,
                                            builder.getStrArrayAttr({}), ArrayAttr());
    builder.createBlock(&update.getBody());
    builder.create<ReturnOp>(module.getLoc(), ValueRange());
    Training training = trainingOf(module);
    training.forwardOnly = true;
    setTraining(module, training);
  }

private:
  /// Each value is handed over where it is made, so that its bytes are needed no longer than by its other users.
  LogicalResult handOver(ProgramOp program) {
    auto exit = cast<ReturnOp>(program.getBlock().getTerminator());
    std::optional<Outputs> named = outputsOf(program);
    if (exit.getResults().empty() || !named || named->names.size() != exit.getResults().size())
      return exit.emitOpError("needs a name in 'graph.outputs' for each result, and at least one");
    auto kinds = [&](size_t index) {
      return named->loss == static_cast<int64_t>(index)     ? OutputKind::loss
             : named->weight == static_cast<int64_t>(index) ? OutputKind::loss_weight
                                                            : OutputKind::value;
    };
    OpBuilder builder(exit);
    for (auto [index, value, name] : llvm::enumerate(exit.getResults(), named->names)) {
      if (Operation *maker = value.getDefiningOp())
        builder.setInsertionPointAfter(maker);
      else
        builder.setInsertionPointToStart(&program.getBlock());
      OutputKind kind = kinds(index);
      const bool isLoss = kind == OutputKind::loss;
      builder.create<OutputOp>(value.getLoc(), value, name, kind, named->likelihood && isLoss,
                               named->byLabels && isLoss);
      ++outputs;
    }
    exit.getResultsMutable().clear();
    exit.setWeighted(false);
    setOutputs(program, std::nullopt);
    return success();
  }
};
} // namespace

} // namespace zc
