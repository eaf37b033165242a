#include "runtime/exec/StreamRuns.h"
#include "runtime/plan/StepNames.h"

#include <algorithm>
#include <array>
#include <optional>

namespace zc {

static bool waitsForOthers(const PreparedStep &step) {
  return std::any_of(step.waits, step.waits + step.numWaits,
                     [&](const PreparedWait &wait) { return wait.queue != step.queue; });
}

std::vector<StreamRun> findRuns(const std::vector<PreparedStep> &steps,
                                const std::function<bool(const PreparedStep &)> &isAwaited) {
  std::vector<StreamRun> runs;
  std::array<std::optional<size_t>, kNumQueues> open; // the run that the queue's next step may go on with
  for (const PreparedStep &step : steps) {
    if (!isStreamQueue(static_cast<planpb::Queue>(step.queue)))
      continue;
    bool isAlone = !step.onDevice->isRepeatable() || step.publishes || step.agrees;
    std::optional<size_t> &run = open[step.queue];
    if (!run || isAlone || waitsForOthers(step)) {
      run = runs.size();
      runs.emplace_back();
    }
    runs[*run].steps.push_back(&step);
    if (isAlone || isAwaited(step))
      run.reset();
  }
  return runs;
}

std::vector<PreparedWait> lastInputs(const PreparedPlan &prepared) {
  std::vector<PreparedWait> inputs;
  for (uint8_t queue = 0; queue < kNumQueues; ++queue) {
    const std::vector<const PreparedStep *> &steps = prepared.queues[0][queue];
    auto isInput = [&](const PreparedStep *step) {
      const planpb::Step &source = prepared.plan.micro().steps(static_cast<int>(step->index));
      return prepared.plan.strings(static_cast<int>(source.kernel())) == kLoadInput;
    };
    auto last = std::find_if(steps.rbegin(), steps.rend(), isInput);
    if (isStreamQueue(static_cast<planpb::Queue>(queue)) && last != steps.rend())
      inputs.push_back({0, queue, static_cast<uint32_t>(steps.rend() - last - 1), 0});
  }
  return inputs;
}

} // namespace zc
