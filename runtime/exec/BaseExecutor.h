//===- BaseExecutor.h - what executors have in common ---------------------------===//
//
// They differ in who runs the steps of a section when.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Working.h"
#include "runtime/exec/PreparedPlan.h"

#include <array>
#include <atomic>
#include <memory>

namespace zc {

/// The newest events of one queue, in memory allocated once.
class TraceRing {
public:
  explicit TraceRing(size_t capacity) { events.resize(capacity); }
  bool isOn() const { return !events.empty(); }
  void add(const TraceEvent &event) { events[count++ % events.size()] = event; }
  void drainInto(std::vector<TraceEvent> &out);

private:
  std::vector<TraceEvent> events;
  uint64_t count = 0;
};

class BaseExecutor : public RankExecutor {
public:
  BaseExecutor(const planpb::Plan &plan, const ExecutorOptions &options, Communicator &communicator);
  Status prepare(const ExecutorOptions &options, const KernelRegistry &registry, InputLoader &loader) {
    return prepared.prepare({options, communicator, registry, loader});
  }

  Status readSlice(uint32_t slice, uint64_t offset, void *to, uint64_t bytes) override {
    return prepared.memory.read(slice, offset, to, bytes);
  }
  Status writeSlice(uint32_t slice, uint64_t offset, const void *from, uint64_t bytes) override {
    return prepared.memory.write(slice, offset, from, bytes);
  }
  Status clearSlice(uint32_t slice, uint64_t offset, uint64_t bytes) override {
    return prepared.memory.clear(slice, offset, bytes);
  }
  std::shared_ptr<TierMemory> memory() const override { return prepared.shared; }
  const planpb::Plan &plan() const override { return prepared.plan; }
  int rank() const override { return communicator.rank(); }
  std::optional<double> loss() const override;
  std::optional<double> gradNorm() const override;
  std::vector<ArenaUse> arenas() const override { return prepared.memory.uses(); }
  Traffic traffic() const override;
  const std::vector<std::string> &notes() const override { return prepared.notes; }
  std::vector<TraceEvent> takeTrace() override;

protected:
  /// Where the host finds a metric.
  virtual const void *metric(uint32_t slice) const { return prepared.memory.operand(slice, 0); }

  /// Runs a step's kernel, here and now.
  Status execute(const PreparedStep &step, uint32_t section, const StepContext &context);

  bool isTraced(int64_t step) const { return traceFirst <= step && step <= traceLast && rings[0].isOn(); }
  int64_t tracedNow(unsigned queue) const;
  /// Notes that the step took from `begin` until now, which it gives.
  int64_t trace(const PreparedStep &step, uint32_t section, const StepContext &context, int64_t begin);

  /// The steps that publish, one after the other; while no queue is at work.
  virtual Status publish(const StepContext &context);

  /// Where no step of the plan carries the agreement.
  Status agreeNow();

  /// "computing "gelu" of node ...", for whoever watches.
  std::string nameOf(uint32_t section, uint32_t index) const;
  /// "\"gelu\" of node ..."
  std::string kernelAndNode(uint32_t section, uint32_t index) const;

  PreparedPlan prepared;
  Communicator &communicator;
  const int64_t traceFirst, traceLast;
  std::function<Status()> agree;
  std::vector<TraceRing> rings; // per queue
  /// Steps that the caller gets on with although no timeline advances: handed to a stream, or published.
  std::atomic<uint64_t> uncounted{0};

private:
  std::array<std::unique_ptr<Working>, kNumQueues> working; // per queue
};

} // namespace zc
