//===- AppendOptimizer.cpp - the update program -------------------------------===//
#include "compiler/grad/Passes.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_APPENDOPTIMIZER
#include "compiler/grad/Passes.h.inc"

namespace {
struct AppendOptimizer : impl::AppendOptimizerBase<AppendOptimizer> {
  using AppendOptimizerBase::AppendOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkOptions()) || failed(parseGlobs()))
      return signalPassFailure();
    for (auto program : module.getOps<ProgramOp>())
      if (program.getPhase() == Phase::update) {
        program.emitOpError("is there already: append-optimizer runs once");
        return signalPassFailure();
      }
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    module->setAttr("zc.lr", builder.getF64FloatAttr(lr));
    auto program = builder.create<ProgramOp>(module.getLoc(), "update", Phase::update, builder.getStrArrayAttr({}));
    builder.createBlock(&program.getBody());
    appendUpdates(builder, module);
    builder.create<ReturnOp>(module.getLoc(), ValueRange());
  }

private:
  SmallVector<llvm::GlobPattern> globs;

  LogicalResult checkOptions() {
    auto check = [&](bool ok, StringRef name, double value, StringRef range) -> LogicalResult {
      if (ok)
        return success();
      return getOperation().emitError("optimizer option '") << name << "' is " << value << ", outside " << range;
    };
    return success(succeeded(check(beta1 >= 0 && beta1 < 1, "beta1", beta1, "[0, 1)")) &&
                   succeeded(check(beta2 >= 0 && beta2 < 1, "beta2", beta2, "[0, 1)")) &&
                   succeeded(check(eps >= 0, "eps", eps, "[0, inf)")) &&
                   succeeded(check(momentum >= 0, "momentum", momentum, "[0, inf)")) &&
                   succeeded(check(maxNorm >= 0, "max-norm", maxNorm, "[0, inf)")) &&
                   succeeded(check(lossScale >= 0, "loss-scale", lossScale, "[0, inf)")) &&
                   succeeded(check(minLossScale > 0, "min-loss-scale", minLossScale, "(0, inf)")) &&
                   succeeded(check(lossScale > 0 || initialLossScale >= minLossScale, "initial-loss-scale",
                                   initialLossScale, "[min-loss-scale, inf)")));
  }

  LogicalResult parseGlobs() {
    for (const std::string &text : noDecay) {
      llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(text);
      if (!glob)
        return getOperation().emitError("no-decay glob '") << text << "': " << llvm::toString(glob.takeError());
      globs.push_back(std::move(*glob));
    }
    return success();
  }

  bool isDecayed(ParameterOp parameter) const {
    return !parameter.getNoDecay() &&
           llvm::none_of(globs, [&](const llvm::GlobPattern &glob) { return glob.match(parameter.getSymName()); });
  }

  /// Did differentiate multiply the loss?
  static bool isScaled(ModuleOp module) {
    return llvm::any_of(module.getOps<ProgramOp>(), [](ProgramOp program) {
      return program.getPhase() == Phase::micro && !program.getOps<LossScaleOp>().empty();
    });
  }

  DictionaryAttr lossScaleRule(OpBuilder &builder) {
    auto number = [&](double value) {
      return builder.getF64FloatAttr(static_cast<float>(value));
    }; // as kernels take it
    NamedAttrList rule;
    rule.set("initial", number(lossScale > 0 ? lossScale : initialLossScale));
    rule.set("minimum", number(lossScale > 0 ? lossScale : minLossScale));
    rule.set("window", builder.getI64IntegerAttr(lossScale > 0 ? 0 : lossScaleWindow));
    rule.set("hysteresis", builder.getI64IntegerAttr(lossScaleHysteresis));
    if (consecutiveHysteresis)
      rule.set("consecutive", builder.getUnitAttr());
    return rule.getDictionary(builder.getContext());
  }

  void appendUpdates(OpBuilder &builder, ModuleOp module) {
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    FloatAttr limit = maxNorm > 0 ? builder.getF64FloatAttr(maxNorm) : FloatAttr();
    bool scaled = isScaled(module);
    auto clip = builder.create<ClipFactorOp>(module.getLoc(), scalar, scalar, limit,
                                             scaled ? builder.getUnitAttr() : UnitAttr());
    if (scaled)
      module->setAttr("zc.loss_scale", lossScaleRule(builder));
    double decay = weightDecay >= 0 ? weightDecay : rule == Optimizer::adamw ? 0.01 : 0.0;
    for (auto parameter : module.getOps<ParameterOp>()) {
      if (parameter.getRole() != Role::trainable)
        continue;
      bool decayed = isDecayed(parameter);
      builder.create<UpdateOp>(parameter.getLoc(), parameter.getSymName(), clip.getFactor(), rule, APFloat(beta1),
                               APFloat(beta2), APFloat(eps), APFloat(momentum), APFloat(decayed ? decay : 0.0));
      ++updates;
      undecayed += !decayed;
    }
  }
};
} // namespace

} // namespace zc
