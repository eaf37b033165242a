//===- QueueExecutor.h - queues that run beside each other ----------------------===//
//
// A timeline per queue says how many of its steps are finished. Queues of the host have a thread each. A step of
// training is over for the caller when its metrics are there: what queues still have to do of it runs beside the next
// one, as far as the plan's waits allow.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Awaited.h"
#include "runtime/device/Timeline.h"
#include "runtime/exec/BaseExecutor.h"
#include "runtime/plan/ThreadShares.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace zc {

class QueueExecutor : public BaseExecutor {
public:
  QueueExecutor(const planpb::Plan &plan, const ExecutorOptions &options, Communicator &communicator)
      : BaseExecutor(plan, options, communicator), teams(teamsOf(plan, options.threads)),
        awaited(communicator.rank(), [this] { return counted(); }, [this] { return queuesPassed(); }) {}
  ~QueueExecutor() override { join(); }

  Status runStep(const StepContext &step) final;
  Status drain() final;
  std::vector<std::string> lateNotes() const override;

protected:
  static constexpr uint64_t kInFlight = 2; ///< the current iteration and the one before

  /// Starts the thread of a queue of the host.
  void startThread(unsigned queue);
  /// The caller's part of iteration `mine` (from 1), whose queues with threads have begun.
  virtual void runOwn(uint64_t mine) = 0;
  /// Has the device found something wrong in what is done? Then it has been told to `fail`.
  virtual bool foundFault() { return false; }
  /// All threads, and whatever else works, come to an end.
  virtual void join();

  /// A queue of the host, from the first step of an iteration to the last.
  void runQueue(unsigned queue, uint64_t mine);
  /// Waits until all queues are through iteration `last` (from 1).
  bool finished(uint64_t last);
  void fail(const Error &error);

  std::atomic<int> missing{0};                 // threads that a queue was not given
  std::array<Timeline, kNumQueues> done;       // steps finished, per queue
  const std::array<int, kNumQueues> teams;     // threads of a queue's kernels
  uint64_t iteration = 0;                      // asked for
  std::array<StepContext, kInFlight> contexts; // by iteration

private:
  /// Of a queue's copy, by its number.
  struct CopyTurn {
    const PreparedStep *step;
    uint32_t section;
    int64_t index; ///< the section's execution
    StepContext now;
  };
  struct Copies {
    uint64_t ended = 0, begun = 0; ///< numbers: those between are under way
  };
  /// Has the queue several copies under way? Not in iterations whose copies may have to be left out.
  bool queuesCopies(unsigned queue, const StepContext &now) const {
    return !prepared.mixed.test(queue) && !prepared.publishesLast(now.step);
  }
  bool runIteration(const StepContext &step);
  bool runSection(unsigned queue, uint32_t section, int64_t index, const StepContext &now);
  /// A queue's step by its number since the first iteration, which is what the queue's timeline counts.
  struct NumberedStep {
    const PreparedStep *step;
    uint32_t section;
    uint64_t iterations; ///< before its own
    uint64_t execution;  ///< of its section, in the iteration
  };
  NumberedStep stepAt(unsigned queue, uint64_t number) const;
  CopyTurn copyTurn(unsigned queue, uint64_t number) const;
  void beginCopies(unsigned queue, uint64_t mine);
  bool runCopies(unsigned queue, uint64_t mine);
  void endCopies(unsigned queue);
  bool waitForTurn(const PreparedStep &step, uint32_t section, int64_t index);
  bool hasTurn(const PreparedStep &step, uint32_t section, int64_t index) const;
  bool publishLast(const StepContext &step);
  bool metricsKnown();
  Status failed();
  /// Changes while anything gets on.
  uint64_t counted() const;
  /// Of each queue, the last step that its timeline says is done: of a device's stream one that the host asks for,
  /// which others may have followed.
  std::string queuesPassed() const;

  Awaited awaited; ///< what the caller waits for
  std::array<Copies, kNumQueues> copies;
  std::vector<std::thread> threads;
  Timeline go;      // iterations asked for
  std::mutex mutex; // of `failure`
  std::optional<Error> failure;
};

} // namespace zc
