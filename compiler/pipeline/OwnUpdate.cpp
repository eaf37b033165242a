//===- OwnUpdate.cpp - the update rule of a model -------------------------------------------===//

#include "compiler/pipeline/OwnUpdate.h"
#include "dialects/graph/ModuleAttrs.h"

using namespace mlir;
using namespace zc;

/// A model's own settings, and of what was asked for what they leave open; the rate is the run's to choose.
static UpdateSettings joined(UpdateSettings own, const UpdateSettings &asked) {
  if (asked.lr)
    own.lr = asked.lr;
  if (own.maxNorm == 0)
    own.maxNorm = asked.maxNorm;
  own.lrSchedule = asked.lrSchedule;
  return own;
}

/// Who knows torch's SGD gives it a momentum.
static void warnOfOtherRules(ModuleOp module, const CompileOptions &options, UpdateRule rule) {
  const bool isAdam = rule == UpdateRule::adamw || rule == UpdateRule::adam;
  auto warn = [&](const char *option, bool isOfRule, const char *others) {
    if (options.isGiven(option) && !isOfRule)
      module.emitWarning("--") << option << " changes nothing with --optimizer " << nameOf(rule) << "; it is for "
                               << others;
  };
  warn("momentum", rule == UpdateRule::momentum, "--optimizer momentum");
  warn("betas", isAdam, "adamw and adam");
  warn("eps", isAdam, "adamw and adam");
}

/// A rule that the model brings along has its numbers with it.
static void warnOfOwnNumbers(ModuleOp module, const CompileOptions &options, const UpdateSettings &own) {
  auto warn = [&](const char *option) {
    if (options.isGiven(option))
      module.emitWarning("--") << option << " changes nothing: the model brings its own update rule, "
                               << nameOf(own.rule) << ", with its numbers; --optimizer trains by another one";
  };
  for (const char *option : {"betas", "eps", "momentum", "weight-decay"})
    warn(option);
  if (own.maxNorm > 0)
    warn("clip-grad-norm");
}

void zc::adoptOptimizer(ModuleOp module, const CompileOptions &options, GradOptions &grad) {
  graph::Training training = graph::trainingOf(module);
  training.precision = grad.precision;
  training.matmulPrecision = grad.matmulPrecision;
  training.seed = static_cast<int64_t>(options.seed);
  if (!training.optimizer || options.isGiven("optimizer")) {
    training.epsUncorrected = training.sumsGradients = false;
    warnOfOtherRules(module, options, grad.update.rule);
  } else {
    warnOfOwnNumbers(module, options, *training.optimizer);
    grad.update = joined(*training.optimizer, grad.update);
  }
  training.optimizer.reset(); // recorded as it is used, after grad
  graph::setTraining(module, training);
}

Status zc::recordOptimizer(ModuleOp module, const GradOptions &grad, const std::string &model) {
  if (grad.forwardOnly)
    return Status::success();
  if (!module.walk([](graph::UpdateOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return makeError(Code::usage, 306, "no parameter is trained: the loss depends on none", model,
                     "--list-parameters tells why; --trainable GLOB and --loss choose otherwise");
  graph::Training training = graph::trainingOf(module);
  training.optimizer = grad.update;
  graph::setTraining(module, training);
  return Status::success();
}

StateSize zc::measureState(ModuleOp imported, const GradOptions &grad) {
  const bool isHalf = grad.precision != Precision::fp32; // updates then keep an fp32 copy
  StateSize state;
  for (auto parameter : imported.getOps<graph::ParameterOp>())
    if (parameter.getRole() == graph::Role::trainable) {
      const int64_t elements = cast<RankedTensorType>(parameter.getType()).getNumElements();
      state.parameters += elements * (isHalf ? 2 : 4);
      state.optimizer += elements * 4 * (momentsOf(grad.update.rule) + isHalf);
    }
  return state;
}
