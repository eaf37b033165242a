//===- ThreadShares.cpp - threads by what runs beside what ------------------------------===//

#include "compiler/schedule/ThreadShares.h"
#include "compiler/schedule/Timeline.h"
#include "runtime/plan/ThreadShares.h"

#include <algorithm>
#include <cmath>

using namespace zc;

namespace {

struct Interval {
  double begin, end;
  double weight; ///< how many executions the played one stands for
};

/// What a queue does, one interval after the other.
using Work = std::vector<Interval>;

struct PlayedWork {
  std::array<Work, kNumQueues> ofOneStep; ///< of a training step that has others before and after it
  Work compute;                           ///< COMPUTE's, of all that were played
};

PlayedWork playWork(const planpb::Plan &plan) {
  const Timeline timeline = playTimeline(plan);
  const uint32_t middle = timeline.trainingSteps / 2;
  const double micros = static_cast<double>(microExecutions(plan)) / timeline.microExecutions;
  PlayedWork work;
  for (const PlannedStep &step : timeline.steps) {
    if (step.begin == step.end)
      continue;
    const bool isMicro = step.where.section == 0;
    const planpb::Queue queue = stepOf(plan, step.where).queue();
    const Interval interval{step.begin, step.end, isMicro ? micros : 1};
    if (queue == planpb::COMPUTE)
      work.compute.push_back(interval);
    if (step.where.execution / (isMicro ? timeline.microExecutions : 1) == middle)
      work.ofOneStep[static_cast<size_t>(queue)].push_back(interval);
  }
  return work;
}

double secondsOf(const Work &work) {
  double sum = 0;
  for (const Interval &interval : work)
    sum += (interval.end - interval.begin) * interval.weight;
  return sum;
}

/// Seconds of `work` during which `other` is at work too.
double secondsBeside(const Work &work, const Work &other) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < work.size() && j < other.size();) {
    sum +=
        std::max(0.0, std::min(work[i].end, other[j].end) - std::max(work[i].begin, other[j].begin)) * work[i].weight;
    work[i].end < other[j].end ? ++i : ++j;
  }
  return sum;
}

} // namespace

void zc::divideThreads(planpb::Plan &plan) {
  plan.clear_thread_shares();
  if (plan.target() != planpb::CPU)
    return;
  const PlayedWork played = playWork(plan);
  const double computes = secondsOf(played.ofOneStep[planpb::COMPUTE]);
  for (unsigned queue = 0; queue < kNumQueues; ++queue) {
    const double takes = secondsOf(played.ofOneStep[queue]);
    if (queue == planpb::COMPUTE || takes == 0 || takes >= computes ||
        2 * secondsBeside(played.ofOneStep[queue], played.compute) < takes)
      continue;
    planpb::ThreadShare &share = *plan.add_thread_shares();
    share.set_queue(static_cast<planpb::Queue>(queue));
    share.set_thousandths(std::max(1u, static_cast<uint32_t>(std::lround(kAllThreads * takes / computes))));
  }
}
