//===- AppendOptimizer.cpp - the update program -------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/ModuleAttrs.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_APPENDOPTIMIZER
#include "compiler/grad/Passes.h.inc"

namespace {
struct AppendOptimizer : StagePass<impl::AppendOptimizerBase<AppendOptimizer>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto program : module.getOps<ProgramOp>())
      if (program.getPhase() == Phase::update) {
        program.emitOpError("is there already: append-optimizer runs once");
        return signalPassFailure();
      }
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto program = builder.create<ProgramOp>(module.getLoc(), freeProgramName(module, Phase::update), Phase::update,
                                             builder.getStrArrayAttr({}), ArrayAttr());
    builder.createBlock(&program.getBody());
    appendUpdates(builder, module);
    builder.create<ReturnOp>(module.getLoc(), ValueRange());
  }

private:
  /// Did differentiate multiply the loss?
  static bool isScaled(ModuleOp module) {
    return llvm::any_of(module.getOps<ProgramOp>(), [](ProgramOp program) {
      return program.getPhase() == Phase::micro && !program.getOps<LossScaleOp>().empty();
    });
  }

  LossScale lossScaleRule() const {
    auto number = [](double value) { return static_cast<float>(value); }; // as kernels take it
    const bool isFixed = options.lossScale > 0;
    LossScale rule;
    rule.initial = number(isFixed ? options.lossScale : options.initialLossScale);
    rule.minimum = number(isFixed ? options.lossScale : options.minLossScale);
    rule.window = isFixed ? 0 : options.lossScaleWindow;
    rule.hysteresis = options.lossScaleHysteresis;
    rule.consecutive = options.consecutiveHysteresis;
    return rule;
  }

  void appendUpdates(OpBuilder &builder, ModuleOp module) {
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    const UpdateSettings &update = options.update;
    FloatAttr limit = update.maxNorm > 0 ? builder.getF64FloatAttr(update.maxNorm) : FloatAttr();
    bool scaled = isScaled(module);
    auto clip = builder.create<ClipFactorOp>(module.getLoc(), scalar, scalar, limit,
                                             scaled ? builder.getUnitAttr() : UnitAttr());
    if (scaled) {
      Training training = trainingOf(module);
      training.lossScale = lossScaleRule();
      setTraining(module, training);
    }
    const FloatAttr ofAll = builder.getF64FloatAttr(update.weightDecayOrDefault());
    for (auto parameter : module.getOps<ParameterOp>()) {
      if (parameter.getRole() != Role::trainable)
        continue;
      const FloatAttr decay = parameter.getWeightDecayAttr() ? parameter.getWeightDecayAttr() : ofAll;
      builder.create<UpdateOp>(parameter.getLoc(), parameter.getSymName(), clip.getFactor(), update.rule,
                               APFloat(update.beta1), APFloat(update.beta2), APFloat(update.eps),
                               APFloat(update.momentum), decay.getValue(), parameter.getLrScaleAttr());
      ++updates;
      undecayed += decay.getValueAsDouble() == 0 && ofAll.getValueAsDouble() != 0;
    }
  }
};
} // namespace

std::unique_ptr<Pass> createAppendOptimizer(const GradStage &options) {
  return std::make_unique<AppendOptimizer>(options);
}

} // namespace zc
