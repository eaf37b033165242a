#include "runtime/train/EvalLoss.h"

#include "runtime/train/Convert.h"
#include "runtime/train/Layout.h"

namespace zc::train {

Result<EvalScope> EvalScope::of(const planpb::Plan &plan, const data::BatchSpec &batch, int64_t samples, int64_t most) {
  EvalScope scope;
  for (int i = 0; i < plan.outputs_size(); ++i) {
    if (plan.outputs(i).kind() == planpb::LOSS) {
      scope.lossOutput = i;
      scope.isLikelihood = plan.outputs(i).likelihood();
      scope.fillsUp = plan.outputs(i).by_labels() && batch.labels();
    }
    if (plan.outputs(i).kind() == planpb::LOSS_WEIGHT)
      scope.weightOutput = i;
  }
  int64_t perStep = batch.samplesPerStep(), needed = samples / perStep + (samples % perStep != 0);
  scope.steps = most > 0 ? std::min(most, needed) : needed;
  scope.extent = {batch.rows(), scope.steps == needed ? samples : scope.steps * perStep};
  if (!scope.hasLoss() || scope.batches() > 0)
    return scope;
  Error error = makeError(Code::mismatch, 953,
                          "the data has " + std::to_string(samples) + " samples, the plan's batch " +
                              std::to_string(scope.extent.rows) + ": there is no batch to take the loss of");
  error.help = "compile for a smaller batch (zero-compile --dim), or for the outputs alone (--outputs)";
  return error;
}

std::string EvalScope::textOfLeftOut() const {
  return "the last " + std::to_string(leftOut()) + " of " + std::to_string(extent.samples) +
         " samples do not fill a batch of " + std::to_string(extent.rows) + ": they are not in the loss";
}

void EvalLoss::begin(int64_t step) {
  current = step;
  if (step > 1)
    return;
  pulses.resize(size_t(communicator.worldSize()));
  sum = total = 0;
  stops = false;
}

void EvalLoss::store(uint32_t output, const void *source) {
  double *to = int(output) == scope.lossOutput     ? &mine.loss
               : int(output) == scope.weightOutput ? &mine.weight
                                                   : nullptr;
  if (to) // a scalar of a float type
    convert(source, dtypeOf(plan.types(int(plan.outputs(int(output)).type())).type()), to, DType::f64, 1);
}

Status EvalLoss::exchange(bool stop) {
  mine.stop = stop;
  ZC_RETURN_IF_ERROR(communicator.allGather({&mine, pulses.data(), sizeof mine}));
  for (const Pulse &pulse : pulses)
    stops |= pulse.stop != 0;
  const Mesh &mesh = communicator.mesh();
  const int degree = mesh.dataDegree();
  for (int i = 0; i < degree; ++i) {
    const Pulse &pulse = pulses[size_t(mesh.rankOf(mesh.dataAxes(), 0, i))];
    const int64_t samples = scope.samplesOf((current - 1) * degree + i);
    if (!scope.hasLoss() || samples == 0 || pulse.weight == 0) // nothing counts in it: its mean is none
      continue;
    const double share = scope.weightOutput >= 0 ? pulse.weight : double(samples) / double(scope.extent.rows);
    sum += pulse.loss * share;
    total += share;
  }
  return Status::success();
}

} // namespace zc::train
