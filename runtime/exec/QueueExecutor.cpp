#include "runtime/exec/QueueExecutor.h"

#include "base/Failpoint.h"
#include "base/SignalStack.h"
#include "base/Size.h"
#include "kernels/cpu/GrantedTeam.h"
#include "kernels/cpu/Team.h"
#include "runtime/device/Caught.h"
#include "runtime/plan/Walk.h"

#include <algorithm>

namespace zc {

Status QueueExecutor::runStep(const StepContext &step) {
  {
    Awaited::Turn turn(awaited);
    if (!runIteration(step))
      return failed();
  }
  return prepared.agreesInStep ? Status() : agreeNow();
}

/// False after a failure anywhere on this rank.
bool QueueExecutor::runIteration(const StepContext &step) {
  if (iteration >= kInFlight && !finished(iteration + 1 - kInFlight))
    return false;
  ++iteration;
  contexts[iteration % kInFlight] = step;
  go.advance();
  runOwn(iteration);
  return metricsKnown() && !foundFault() && (!prepared.publishesLast(step.step) || publishLast(step));
}

Status QueueExecutor::drain() {
  Awaited::Turn turn(awaited);
  return finished(iteration) && !foundFault() ? Status() : failed();
}

uint64_t QueueExecutor::counted() const {
  uint64_t sum = uncounted.load(std::memory_order_relaxed);
  for (const Timeline &timeline : done)
    sum += timeline.word().load(std::memory_order_relaxed);
  return sum;
}

std::string QueueExecutor::queuesPassed() const {
  const uint64_t asked = go.word().load(std::memory_order_relaxed);
  std::string text;
  for (unsigned queue = 0; queue < kNumQueues; ++queue) {
    const uint64_t size = prepared.stepsPerIteration(queue),
                   passed = done[queue].word().load(std::memory_order_acquire);
    if (go.hasFailed() || done[queue].hasFailed())
      return {};
    if (size == 0)
      continue;
    text += (text.empty() ? "" : ", ") + planpb::Queue_Name(planpb::Queue(queue));
    if (passed == 0) {
      text += " has passed nothing";
    } else if (passed >= asked * size) {
      text += " is through";
    } else {
      const NumberedStep last = stepAt(queue, passed - 1);
      text += " has passed " + kernelAndNode(last.section, last.step->index) +
              (last.section == 0 ? " in a micro-step" : " in an update");
    }
  }
  return text;
}

std::vector<std::string> QueueExecutor::lateNotes() const {
  const int lacks = missing.load(std::memory_order_relaxed);
  if (lacks == 0)
    return {};
  return {"the system gave " + zc::counted(lacks, "thread") +
          " less than a queue of this rank has, so steps took longer: see ulimit -u, ulimit -v, OMP_THREAD_LIMIT and "
          "pids.max of the control group"};
}

void QueueExecutor::startThread(unsigned queue) {
  threads.emplace_back([this, queue] {
    SignalStack stack;
    for (uint64_t mine = 1; go.waitFor(mine); ++mine)
      runQueue(queue, mine);
    endCopies(queue); // of an iteration that was asked for and will not run
  });
}

void QueueExecutor::runQueue(unsigned queue, uint64_t mine) {
  const int granted = cpu::grantedTeam(teams[queue]);
  if (granted < teams[queue])
    missing.store(teams[queue] - granted, std::memory_order_relaxed);
  cpu::TeamLimit team(granted);
  StepContext now = contexts[mine % kInFlight];
  setFaultContext(communicator.rank(), now.step);
  if (queuesCopies(queue, now)) {
    if (!runCopies(queue, mine))
      endCopies(queue);
    return;
  }
  int64_t micros = prepared.plan.accumulation(), executions = microExecutions(prepared.plan);
  int64_t update = static_cast<int64_t>(mine) - 1;
  for (int64_t i = 0; i < executions; ++i) {
    now.micro = micros - executions + i;
    if (!runSection(queue, 0, update * executions + i, now))
      return;
  }
  now.micro = micros - 1;
  runSection(queue, 1, update, now);
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

QueueExecutor::NumberedStep QueueExecutor::stepAt(unsigned queue, uint64_t number) const {
  const auto &micro = prepared.queues[0][queue], &update = prepared.queues[1][queue];
  const uint64_t size = prepared.stepsPerIteration(queue), before = number / size, at = number % size;
  const uint64_t ofMicro = microExecutions(prepared.plan) * micro.size();
  return at < ofMicro ? NumberedStep{micro[at % micro.size()], 0, before, at / micro.size()}
                      : NumberedStep{update[at - ofMicro], 1, before, 0};
}

QueueExecutor::CopyTurn QueueExecutor::copyTurn(unsigned queue, uint64_t number) const {
  const auto [step, section, before, execution] = stepAt(queue, number);
  const uint64_t executions = section == 0 ? microExecutions(prepared.plan) : 1; // in an iteration
  CopyTurn turn{step, section, static_cast<int64_t>(before * executions + execution),
                contexts[(before + 1) % kInFlight]};
  turn.now.micro = static_cast<int64_t>(prepared.plan.accumulation() - executions + execution);
  return turn;
}

/// Begins those whose waits are over, in their order, of iteration `mine` and of the next one once it is asked for.
void QueueExecutor::beginCopies(unsigned queue, uint64_t mine) {
  const uint64_t size = prepared.stepsPerIteration(queue);
  for (uint64_t &begun = copies[queue].begun;; ++begun) {
    const uint64_t iterationOf = begun / size + 1;
    if (iterationOf > mine && (!go.hasReached(iterationOf) || go.hasFailed() || // a failure looks like any count
                               !queuesCopies(queue, contexts[iterationOf % kInFlight])))
      return;
    CopyTurn turn = copyTurn(queue, begun);
    QueuedCopy &copy = *turn.step->copy;
    if (!hasTurn(*turn.step, turn.section, turn.index) || !copy.mayBegin(turn.step->operands))
      return;
    copy.begin(turn.step->operands);
  }
}

/// An iteration of a queue whose steps are copies: while the oldest is under way, the next ones begin as soon as their
/// waits are over, over the borders of sections and iterations, so that a disk is not idle between two steps. False
/// after a failure anywhere on this rank; then some may be under way.
bool QueueExecutor::runCopies(unsigned queue, uint64_t mine) {
  auto &[ended, begun] = copies[queue];
  const uint64_t size = prepared.stepsPerIteration(queue);
  ended = (mine - 1) * size;
  begun = std::max(begun, ended);   // iterations that publish last ran one by one
  int64_t since = tracedNow(queue); // a copy's time counts from the end of the one before
  for (; ended < mine * size; ++ended) {
    CopyTurn turn = copyTurn(queue, ended);
    const bool waits = begun == ended;
    if ((waits && !waitForTurn(*turn.step, turn.section, turn.index)) || done[queue].hasFailed())
      return false;
    if (waits)
      since = tracedNow(queue);
    QueuedCopy &copy = *turn.step->copy;
    Status status = caught([&]() -> Status {
      for (beginCopies(queue, mine); !copy.isOldestDone(); beginCopies(queue, mine))
        copy.progress();
      return copy.finish();
    });
    since = trace(*turn.step, turn.section, turn.now, since);
    if (!status.ok()) {
      fail(locate(status.error(), prepared.plan, turn.section, turn.step->index));
      return false;
    }
    done[queue].advance();
  }
  return true;
}

/// Nothing may be left under way: what became of it is of no interest any more.
void QueueExecutor::endCopies(unsigned queue) {
  for (Copies &own = copies[queue]; own.ended < own.begun; ++own.ended)
    (void)caught([&] { return copyTurn(queue, own.ended).step->copy->finish(); });
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
