#include "runtime/exec/ThreadBudget.h"

#include "runtime/plan/Walk.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace zc {

namespace {

struct Interval {
  double begin, end;
};

/// When steps would run, by the plan's seconds, if each began as soon as its waits and its queue allow.
class Timetable {
public:
  explicit Timetable(const planpb::Plan &plan) : plan(plan), micros(microExecutions(plan)) {
    for (uint32_t section : {0u, 1u})
      for (const planpb::Step &step : sectionOf(plan, section).steps())
        ++numSteps[section][step.queue()];
  }

  /// Of the second of two iterations: the first has nothing of an earlier one beside it.
  std::array<std::vector<Interval>, kNumQueues> secondIteration() {
    constexpr int64_t kIterations = 2;
    for (int64_t update = 0; update < kIterations; ++update) {
      for (int64_t i = 0; i < micros; ++i)
        execute(0, update * micros + i, update == kIterations - 1);
      execute(1, update, update == kIterations - 1);
    }
    return std::move(kept);
  }

private:
  void execute(uint32_t section, int64_t execution, bool keeps) {
    const planpb::Section &source = sectionOf(plan, section);
    for (int i = 0; i < source.steps_size(); ++i) {
      const planpb::Step &step = source.steps(i);
      double begin = freeAt[step.queue()];
      for (const planpb::Wait &wait : step.waits())
        begin = std::max(begin, endOf(wait, section, execution));
      double end = begin + std::max(step.seconds(), 0.0);
      freeAt[step.queue()] = end;
      ends[section][step.queue()].push_back(end);
      if (keeps)
        kept[step.queue()].push_back({begin, end});
    }
  }

  double endOf(const planpb::Wait &wait, uint32_t section, int64_t execution) const {
    int64_t waited =
        waitedExecution(section, execution, wait.section(), wait.distance(), static_cast<uint32_t>(micros));
    if (waited < 0)
      return 0;
    size_t step = static_cast<size_t>(waited) * numSteps[wait.section()][wait.queue()] + wait.ordinal();
    const std::vector<double> &known = ends[wait.section()][wait.queue()];
    return step < known.size() ? known[step] : 0;
  }

  const planpb::Plan &plan;
  int64_t micros;
  uint32_t numSteps[2][kNumQueues] = {};
  double freeAt[kNumQueues] = {};
  std::vector<double> ends[2][kNumQueues]; // of all executions so far, by step of the queue
  std::array<std::vector<Interval>, kNumQueues> kept;
};

double secondsOf(const std::vector<Interval> &intervals) {
  double sum = 0;
  for (const Interval &interval : intervals)
    sum += interval.end - interval.begin;
  return sum;
}

/// Seconds that both are at work. Intervals of a queue follow each other.
double secondsBeside(const std::vector<Interval> &a, const std::vector<Interval> &b) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    a[i].end < b[j].end ? ++i : ++j;
  }
  return sum;
}

} // namespace

std::array<int, kNumQueues> threadBudget(const planpb::Plan &plan, int threads) {
  std::array<int, kNumQueues> budget;
  budget.fill(threads);
  auto busy = Timetable(plan).secondIteration();
  const std::vector<Interval> &compute = busy[planpb::COMPUTE];
  double whole = secondsOf(compute);
  for (unsigned queue = 0; queue < kNumQueues; ++queue) {
    double own = secondsOf(busy[queue]);
    if (queue == planpb::COMPUTE || own == 0 || 2 * secondsBeside(busy[queue], compute) < own)
      continue;
    budget[queue] = static_cast<int>(std::clamp<double>(std::round(threads * own / whole), 1, threads));
  }
  return budget;
}

} // namespace zc
