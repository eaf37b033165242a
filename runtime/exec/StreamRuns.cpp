#include "runtime/exec/StreamRuns.h"

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

} // namespace zc
