//===- Timeline.cpp - plays the queues of a plan ------------------------------------------===//

#include "compiler/schedule/Timeline.h"
#include "runtime/plan/Hazards.h"

#include <algorithm>
#include <array>

using namespace zc;

namespace {

constexpr uint32_t kTrainingSteps = 3;   // the first fills the pipeline
constexpr uint64_t kMostSteps = 1 << 20; // that are played
constexpr uint32_t kFewMicroSteps = 4;   // where all would be more

class Player {
public:
  explicit Player(const planpb::Plan &plan) : plan(plan) {
    uint64_t all = uint64_t(plan.micro().steps_size()) * microExecutions(plan) + uint64_t(plan.update().steps_size());
    timeline.microExecutions =
        all * kTrainingSteps <= kMostSteps ? microExecutions(plan) : std::min(microExecutions(plan), kFewMicroSteps);
    for (uint32_t index : {0u, 1u})
      for (int i = 0; i < sectionOf(plan, index).steps_size(); ++i)
        stepsOfQueue[index][sectionOf(plan, index).steps(i).queue()].push_back(static_cast<size_t>(i));
  }

  Timeline run() {
    for (uint32_t step = 0; step < kTrainingSteps; ++step) {
      for (uint32_t micro = 0; micro < timeline.microExecutions; ++micro)
        play(0, step * timeline.microExecutions + micro);
      play(1, step);
      double before = started;
      started = metricsKnown();
      timeline.secondsPerStep = started - before;
    }
    timeline.trainingSteps = kTrainingSteps;
    addUnplayed();
    return std::move(timeline);
  }

private:
  void play(uint32_t section, uint32_t execution) {
    first[section].push_back(timeline.steps.size());
    const planpb::Section &steps = sectionOf(plan, section);
    for (int i = 0; i < steps.steps_size(); ++i) {
      const planpb::Step &step = steps.steps(i);
      double begin = std::max(started, freeAt[step.queue()]);
      for (const planpb::Wait &wait : step.waits())
        begin = std::max(begin, endOf(wait, section, execution));
      freeAt[step.queue()] = begin + step.seconds();
      timeline.steps.push_back({{section, execution, static_cast<uint32_t>(i)}, begin, begin + step.seconds()});
    }
  }

  double endOf(const planpb::Wait &wait, uint32_t section, uint32_t execution) const {
    int64_t waited = waitedExecution(section, execution, wait.section(), wait.distance(), timeline.microExecutions);
    if (waited < 0)
      return 0;
    const std::vector<size_t> &candidates = stepsOfQueue[wait.section()][wait.queue()];
    if (wait.ordinal() >= candidates.size() || static_cast<size_t>(waited) >= first[wait.section()].size())
      return 0; // for verifyPlan to refuse, as is a wait for what comes later
    size_t index = first[wait.section()][static_cast<size_t>(waited)] + candidates[wait.ordinal()];
    return index < timeline.steps.size() ? timeline.steps[index].end : 0;
  }

  /// When the loss and the norm of the training step just played are known: the last writes of their slices.
  double metricsKnown() const {
    double known = started;
    for (uint32_t section : {0u, 1u}) {
      const planpb::Section &steps = sectionOf(plan, section);
      size_t base = first[section].back();
      for (int i = 0; i < steps.steps_size(); ++i)
        for (const planpb::Operand &operand : steps.steps(i).operands())
          if (operand.access() != planpb::READ && isMetric(operand.slice()))
            known = std::max(known, timeline.steps[base + static_cast<size_t>(i)].end);
    }
    return known;
  }

  /// A forward-only plan has none: its step ends when all that it writes is there.
  bool isMetric(uint32_t slice) const {
    return plan.forward_only() || slice == plan.metrics().loss_slice() ||
           int64_t(slice) == plan.metrics().grad_norm_slice();
  }

  void addUnplayed() {
    uint32_t unplayed = microExecutions(plan) - timeline.microExecutions;
    if (unplayed == 0)
      return;
    size_t steps = static_cast<size_t>(plan.micro().steps_size());
    auto endOfMicro = [&](size_t fromLast) {
      size_t base = first[0][first[0].size() - 1 - fromLast];
      double end = 0;
      for (size_t i = base; i < base + steps; ++i)
        end = std::max(end, timeline.steps[i].end);
      return end;
    };
    timeline.secondsPerStep += unplayed * (endOfMicro(0) - endOfMicro(1));
  }

  const planpb::Plan &plan;
  Timeline timeline;
  std::array<double, kNumQueues> freeAt{};
  double started = 0;                                          ///< when the training step may start
  std::vector<size_t> first[2];                                ///< of each execution, in timeline.steps
  std::array<std::vector<size_t>, kNumQueues> stepsOfQueue[2]; ///< step by ordinal
};

} // namespace

Timeline zc::playTimeline(const planpb::Plan &plan) { return Player(plan).run(); }
