#include "runtime/train/Validation.h"

#include "base/Clock.h"
#include "runtime/plan/Evaluation.h"
#include "runtime/train/BatchSpec.h"

namespace zc::train {

Result<Validation> Validation::of(const planpb::Plan &plan, const std::string &file) {
  if (!plan.has_eval())
    return makeError(Code::usage, 959, "the plan has no evaluation for --eval-data and --eval-tokens", file,
                     "zero-compile " + plan.model().path() + " --with-eval ... -o " + file);
  Validation validation;
  validation.plan = evaluationOf(plan);
  validation.batch = batchOf(validation.plan);
  return validation;
}

data::DataOptions evalDataOf(const RunOptions &options) {
  data::DataOptions data = options.data;
  data.data = options.evalData;
  data.tokens = options.evalTokens;
  data.shuffle = false;
  data.isRepeated = false;
  return data;
}

Error namedForEval(Error error) {
  for (std::string *text : {&error.message, &error.where, &error.note, &error.help})
    for (const std::string &flag : {std::string("--data"), std::string("--tokens")})
      for (size_t at = text->find(flag); at != std::string::npos; at = text->find(flag, at + flag.size() + 5))
        text->replace(at, 2, "--eval-");
  return error;
}

Status Validator::prepare(RankExecutor &executorThatTrains) {
  training = &executorThatTrains;
  ExecutorOptions options = session.executorOptions();
  options.memory = training->memory();
  options.outputs = this;
  options.agree = [this] { return losses.exchange(session.isToldToStop()); };
  auto prepared = session.prepareExecutor(shared.plan, communicator, options, loader);
  if (!prepared)
    return prepared.error();
  executor = std::move(*prepared);
  for (const planpb::Parameter &parameter : shared.plan.parameters())
    if (parameter.role() == planpb::BUFFER && communicator.worldSize() > 1) {
      std::vector<char> bytes(shared.plan.slices(parameter.slice()).bytes());
      statistics.push_back({static_cast<uint32_t>(parameter.slice()), bytes, bytes});
    }
  return Status::success();
}

Status Validator::takeCommonStatistics() {
  for (Statistic &statistic : statistics) {
    ZC_RETURN_IF_ERROR(training->readSlice(statistic.slice, 0, statistic.own.data(), statistic.own.size()));
    statistic.common = statistic.own;
    ZC_RETURN_IF_ERROR(communicator.broadcast({statistic.common.data(), statistic.common.size(), 0}));
    ZC_RETURN_IF_ERROR(training->writeSlice(statistic.slice, 0, statistic.common.data(), statistic.common.size()));
  }
  return Status::success();
}

Status Validator::putBackStatistics() {
  for (Statistic &statistic : statistics)
    ZC_RETURN_IF_ERROR(training->writeSlice(statistic.slice, 0, statistic.own.data(), statistic.own.size()));
  return Status::success();
}

Result<std::optional<EvalRecord>> Validator::evaluate() {
  ZC_RETURN_IF_ERROR(takeCommonStatistics());
  Result<std::optional<EvalRecord>> found = evaluateAll();
  ZC_RETURN_IF_ERROR(putBackStatistics());
  return found;
}

Result<std::optional<EvalRecord>> Validator::evaluateAll() {
  double begin = now();
  for (int64_t step = 1; step <= shared.scope.steps; ++step) {
    StepContext context;
    context.step = step;
    losses.begin(step);
    ZC_RETURN_IF_ERROR(executor->runStep(context));
    if (losses.isToStop() && step < shared.scope.steps) {
      ZC_RETURN_IF_ERROR(executor->drain());
      return std::optional<EvalRecord>();
    }
  }
  ZC_RETURN_IF_ERROR(executor->drain());
  const int64_t leftOut = shared.scope.leftOut();
  return std::optional<EvalRecord>(EvalRecord{losses.mean(), shared.scope.isLikelihood, now() - begin,
                                              shared.scope.extent.samples - leftOut, leftOut});
}

} // namespace zc::train
