//===- PreparedPlan.h - a plan with pointers instead of indices ---------------===//
#pragma once

#include "kernels/Kernel.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/StreamKernels.h"
#include "runtime/exec/TierMemory.h"
#include "runtime/plan/Hazards.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/VerifyAliases.h"

#include <array>
#include <bitset>

namespace zc {

/// Before its step may run, the queue's timeline must have reached what `target` says.
struct PreparedWait {
  uint8_t section = 0, queue = 0;
  uint32_t ordinal = 0, distance = 0;
};

struct PreparedStep {
  Kernel *kernel = nullptr;         ///< of a queue of the host
  DeviceKernel *onDevice = nullptr; ///< of a stream
  int64_t micro = -1;               ///< whose micro-step the plan names
  QueuedCopy *copy = nullptr;       ///< the kernel, where it is one
  void *const *operands = nullptr;
  const PreparedWait *waits = nullptr;
  uint32_t numWaits = 0;
  uint32_t index = 0; ///< in plan order of its section
  uint8_t queue = 0;
  bool isCollective = false;
  bool publishes = false; ///< Delay in plan.proto
  bool agrees = false;    ///< ExecutorOptions::agree comes before it
};

/// What a rank is prepared from.
struct RankParts {
  const ExecutorOptions &options;
  Communicator &communicator;
  const KernelRegistry &registry; ///< of the host's queues
  InputLoader &loader;
  StreamKernels *streams = nullptr; ///< of a device: steps of its queues are theirs, and so is device memory
};

/// Memory and kernels of one rank. Everything it points to lies in it, or in memory that it shares; not movable.
class PreparedPlan {
public:
  /// `mapped`: of another executor (ExecutorOptions::memory), or null: its own.
  PreparedPlan(const planpb::Plan &plan, std::shared_ptr<TierMemory> mapped)
      : plan(plan), mesh(meshOf(plan)), ownsMemory(!mapped),
        shared(mapped ? std::move(mapped) : std::make_shared<TierMemory>(plan)), memory(*shared), aliases(plan) {}
  PreparedPlan(const PreparedPlan &) = delete;
  PreparedPlan &operator=(const PreparedPlan &) = delete;

  /// Errors as prepareRank.
  Status prepare(const RankParts &parts);

  /// The count the timeline of a wait's queue must have reached before execution `index` of `section` may go on; 0 if
  /// it is for something that never ran.
  uint64_t target(const PreparedWait &wait, uint32_t section, int64_t index) const;
  /// Is the update of optimizer step `step` (from 1) not delayed, though the plan delays later ones? Steps that publish
  /// are then left out in their place and come last.
  bool publishesLast(int64_t step) const {
    return plan.has_delay() && step <= static_cast<int64_t>(plan.delay().after());
  }
  /// Steps of a queue in one optimizer step.
  uint64_t stepsPerIteration(unsigned queue) const;

  const planpb::Plan &plan;
  const Mesh mesh;
  const bool ownsMemory;
  const std::shared_ptr<TierMemory> shared;
  TierMemory &memory;
  std::vector<PreparedStep> steps[2]; // in plan order, per section
  std::vector<const PreparedStep *> queues[2][kNumQueues];
  std::bitset<kNumQueues> mixed; ///< queues with steps that are no QueuedCopy
  std::vector<PreparedWait>
      metricWriters; ///< the last step of each queue that writes a metric or hands over an output, seen from the update
  bool agreesInStep = false;      ///< a step calls ExecutorOptions::agree
  std::vector<std::string> notes; ///< what the user should know

private:
  Result<std::unique_ptr<Kernel>> makeKernel(const planpb::Step &step, const KernelSpec &spec, const RankParts &parts);
  /// Gives `out` its kernel, on the host or in a stream.
  Status prepareKernel(const planpb::Step &step, const KernelSpec &spec, const RankParts &parts, PreparedStep &out);
  void findMetricWriters();
  /// Puts the call of `agree` before the last collective of the update that writes a metric.
  void prepareAgreement(const std::function<Status()> &agree);
  Status prepareSection(uint32_t section, const RankParts &parts);
  KernelSpec specOf(const planpb::Step &step, const RankParts &parts) const;
  std::vector<KernelSpec> specsOnStreams(const RankParts &parts) const;
  /// Was a step planned for another processor than what executes it here?
  bool isForeign(const planpb::Step &step) const {
    return step.queue() != planpb::HOST_COMPUTE && static_cast<Target>(plan.target()) != runsOn;
  }
  /// Kernels of steps that were planned for another processor work in memory beside the plan's: a piece per queue.
  Status mapForeignWorkspace(const RankParts &parts);
  void resolveOperands(const planpb::Step &step, const KernelSpec &spec, int rank, std::vector<void *> &pool) const;

  /// Adds what kernels have to say to the notes: once what many say, with the first one's node.
  void collectNotes();

  Target runsOn = Target::cpu;
  std::array<void *, kNumQueues> workspaces{};
  const verify::AliasFinder aliases;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<void *> operandPool[2];
  std::vector<PreparedWait> waitPool[2];
};

} // namespace zc
