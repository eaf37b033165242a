#include "runtime/exec/QueueExecutor.h"

#include "kernels/cpu/Team.h"
#include "runtime/base/Failpoint.h"
#include "runtime/base/SignalStack.h"
#include "runtime/device/Caught.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc {

Status QueueExecutor::runStep(const StepContext &step) {
  bool isGoing = iteration < kInFlight || finished(iteration + 1 - kInFlight);
  if (isGoing) {
    ++iteration;
    contexts[iteration % kInFlight] = step;
    go.advance();
    runOwn(iteration);
    isGoing = metricsKnown() && !foundFault() && (!prepared.publishesLast(step.step) || publishLast(step));
  }
  if (!isGoing)
    return failed();
  return prepared.agreesInStep ? Status() : agreeNow();
}

void QueueExecutor::startThread(unsigned queue) {
  threads.emplace_back([this, queue] {
    SignalStack stack;
    for (uint64_t mine = 1; go.waitFor(mine); ++mine)
      runQueue(queue, mine);
  });
}

void QueueExecutor::runQueue(unsigned queue, uint64_t mine) {
  cpu::TeamLimit team(teams[queue]);
  StepContext now = contexts[mine % kInFlight];
  setFaultContext(communicator.rank(), now.step);
  int64_t micros = prepared.plan.accumulation(), executions = microExecutions(prepared.plan);
  int64_t update = static_cast<int64_t>(mine) - 1;
  auto run = [&](uint32_t section, int64_t index) {
    return queuesCopies(queue, section, now) ? runCopies(queue, section, index, now)
                                             : runSection(queue, section, index, now);
  };
  for (int64_t i = 0; i < executions; ++i) {
    now.micro = micros - executions + i;
    if (!run(0, update * executions + i))
      return;
  }
  now.micro = micros - 1;
  run(1, update);
}

bool QueueExecutor::queuesCopies(unsigned queue, uint32_t section, const StepContext &now) const {
  const auto &steps = prepared.queues[section][queue];
  return !prepared.publishesLast(now.step) &&
         std::all_of(steps.begin(), steps.end(), [](const PreparedStep *step) { return step->copy; });
}

/// Execution `index` of a section on one queue; false after a failure anywhere on this rank.
bool QueueExecutor::runSection(unsigned queue, uint32_t section, int64_t index, const StepContext &now) {
  for (const PreparedStep *step : prepared.queues[section][queue]) {
    if (!waitForTurn(*step, section, index) || done[queue].hasFailed())
      return false;
    if (step->publishes && prepared.publishesLast(now.step)) {
      done[queue].advance(); // others may wait for what this one waited for
      continue;
    }
    if (Status status = execute(*step, section, now); !status.ok()) {
      fail(status.error());
      return false;
    }
    done[queue].advance();
  }
  return true;
}

bool QueueExecutor::waitForTurn(const PreparedStep &step, uint32_t section, int64_t index) {
  for (uint32_t i = 0; i < step.numWaits; ++i)
    if (!done[step.waits[i].queue].waitFor(prepared.target(step.waits[i], section, index)))
      return false;
  return true;
}

bool QueueExecutor::hasTurn(const PreparedStep &step, uint32_t section, int64_t index) const {
  for (uint32_t i = 0; i < step.numWaits; ++i)
    if (!done[step.waits[i].queue].hasReached(prepared.target(step.waits[i], section, index)))
      return false;
  return true;
}

/// As runSection, of steps that are copies: while the oldest is under way, the next ones begin as soon as their waits
/// are over, so that a disk is not idle between two steps.
bool QueueExecutor::runCopies(unsigned queue, uint32_t section, int64_t index, const StepContext &now) {
  const std::vector<const PreparedStep *> &steps = prepared.queues[section][queue];
  size_t begun = 0;
  auto beginOthers = [&] {
    for (; begun < steps.size() && hasTurn(*steps[begun], section, index); ++begun) {
      if (!steps[begun]->copy->mayBegin(steps[begun]->operands))
        return;
      steps[begun]->copy->begin(steps[begun]->operands);
    }
  };
  int64_t since = 0; // a copy's time counts from the end of the one before
  for (size_t first = 0; first < steps.size(); ++first) {
    const PreparedStep &step = *steps[first];
    bool goesOn = (begun > first || waitForTurn(step, section, index)) && !done[queue].hasFailed();
    if (begun == first)
      since = tracedNow(queue);
    Status status = caught([&]() -> Status {
      if (goesOn)
        beginOthers();
      for (; goesOn && !step.copy->isOldestDone(); beginOthers())
        step.copy->progress();
      return goesOn || begun > first ? step.copy->finish() : Status();
    });
    if (!goesOn) {
      if (begun > first + 1)
        continue; // nothing may be left under way
      return false;
    }
    since = trace(step, section, now, since);
    if (!status.ok()) {
      fail(locate(status.error(), prepared.plan, section, step.index));
      return false;
    }
    done[queue].advance();
  }
  return true;
}

bool QueueExecutor::publishLast(const StepContext &step) {
  if (!finished(iteration))
    return false;
  Status status = publish(step);
  if (!status.ok())
    fail(status.error());
  return status.ok();
}

/// Waits until the steps that write the metrics of the current iteration are done.
bool QueueExecutor::metricsKnown() {
  for (const PreparedWait &writer : prepared.metricWriters)
    if (!done[writer.queue].waitFor(prepared.target(writer, 1, static_cast<int64_t>(iteration) - 1)))
      return false;
  return !done[0].hasFailed(); // they all fail together
}

/// Waits until all queues are through iteration `last` (from 1).
bool QueueExecutor::finished(uint64_t last) {
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    if (uint64_t steps = prepared.stepsPerIteration(queue); steps > 0 && !done[queue].waitFor(last * steps))
      return false;
  return true;
}

void QueueExecutor::fail(const Error &error) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!failure)
      failure = error; // before the abort: what other queues then see is its echo
  }
  communicator.abort(error);
  for (Timeline &timeline : done)
    timeline.fail();
}

/// The failure; nobody is at work any more.
Status QueueExecutor::failed() {
  join();
  std::lock_guard<std::mutex> lock(mutex);
  return failure ? Status(*failure) : Status();
}

void QueueExecutor::join() {
  go.fail();
  for (std::thread &thread : threads)
    thread.join();
  threads.clear();
}

} // namespace zc
