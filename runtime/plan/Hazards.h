//===- Hazards.h - which steps must wait for which ----------------------------===//
//
// Happens-before over steps of several in-order queues that read and write byte ranges. The compiler feeds steps
// without waits and adds the ones reported missing; the verifier feeds a plan's waits and calls a missing one a race.
// Both walk the same sequence (walkOrder), so a plan whose waits were computed here is free of races by construction.
//
// Each step has a vector clock: per queue, how many of its steps are known to have finished before it ends. A step of a
// queue knows what its predecessor knew, plus what the steps it waits for knew. Per arena an interval map holds the
// last writer of each byte (step and slice) and, per queue, its last reader since. An access must come after the last
// writer and, if it writes, after the readers since; earlier accesses are covered because each of those came after
// them.
//
//     HazardTracker tracker(arenas);
//     for (each step in plan order, section after section as walkOrder says) {
//       HazardTracker::StepId id = tracker.begin(queue);
//       tracker.wait(earlierId);                      // for each wait the step has already
//       tracker.touch({arena, begin, end, slice, /*reads=*/true, /*writes=*/false, /*transient=*/true});
//       const HazardTracker::Findings &found = tracker.finish();
//       // found.missing: the steps to wait for; the tracker goes on as if those waits were there
//     }
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace zc {

constexpr unsigned kNumQueues = 7; ///< of planpb::Queue

class HazardTracker {
public:
  using StepId = uint32_t; ///< counts begin() calls from 0
  static constexpr StepId kNoStep = ~StepId(0);
  static constexpr uint32_t kNoSlice = ~uint32_t(0);

  /// One operand of the current step. Bytes [begin, end) of an arena, reached through a slice.
  struct Access {
    uint32_t arena = 0;
    uint64_t begin = 0, end = 0;
    uint32_t slice = 0;
    bool reads = false, writes = false;
    bool transient = false; ///< what it reads must have been written, and last through the same slice
    /// Not 0: which of the bytes depends on the rank, in the same way where patterns are equal. Then what is written
    /// this way is written for reads of this pattern, and of those that it covers.
    uint32_t pattern = 0;
  };

  enum class Kind : uint8_t { readAfterWrite, writeAfterRead, writeAfterWrite };

  /// The current step must come after `step` and no wait says so.
  struct Dependence {
    StepId step = kNoStep;
    Kind kind = Kind::readAfterWrite;
    uint32_t slice = 0; ///< through which the current step touches the bytes
    uint64_t begin = 0; ///< first byte of the arena where they meet
  };

  /// The current step reads transient bytes that nobody wrote (writer kNoStep), or whose last writer used another
  /// slice.
  struct StaleRead {
    uint32_t slice = 0;
    uint64_t begin = 0;
    StepId writer = kNoStep;
    uint32_t writerSlice = kNoSlice;
  };

  struct Findings {
    std::vector<Dependence> missing; ///< at most one per queue, none implied by another or by the step's waits
    std::vector<StaleRead> stale;    ///< at most one per access
  };

  /// Does what is touched by pattern `outer` have all that is touched by `inner`, on each rank?
  using Covers = std::function<bool(uint32_t outer, uint32_t inner)>;

  explicit HazardTracker(size_t numArenas, Covers covers = nullptr);

  /// The next step, on `queue` (< kNumQueues).
  StepId begin(unsigned queue);
  /// The current step waits for an earlier one.
  void wait(StepId earlier);
  /// Steps from here on, on all queues, begin when all before have ended.
  void drain();
  /// Any order: reads of a step are looked at before its writes.
  void touch(const Access &access);
  /// Ends the current step. Valid until the next begin().
  const Findings &finish();

  /// Intervals visited so far: what a walk costs. Hostile plans can make it quadratic; the verifier stops at a limit.
  uint64_t work() const { return visited; }

private:
  using Clock = std::array<uint32_t, kNumQueues>;
  struct Interval {
    uint64_t end = 0;
    StepId writer = kNoStep;
    uint32_t writerSlice = kNoSlice;
    uint32_t pattern = 0;                   ///< of what the slice holds; 0: all is written
    std::array<StepId, kNumQueues> readers; ///< last reader of each queue since the write, or kNoStep
  };
  using IntervalMap = std::map<uint64_t, Interval>; // by first byte; neighbours may be absent (never touched)
  struct Position {
    uint8_t queue = 0;
    uint32_t count = 0; ///< 1 for the queue's first step
  };

  void apply(const Access &access, bool write);
  IntervalMap::iterator splitAt(IntervalMap &map, uint64_t at);
  void require(StepId earlier, Kind kind, const Access &access, uint64_t at);
  void writeSome(Interval &interval, const Access &access) const;
  void readInterval(Interval &interval, const Access &access, uint64_t at, bool &stale);
  void markStale(const Access &access, uint64_t at, StepId writer, uint32_t writerSlice, bool &stale);
  void join(StepId earlier);
  bool isOrdered(StepId earlier) const;

  std::vector<IntervalMap> arenas;
  Covers covers;
  std::vector<Clock> clocks;       // per step
  std::vector<Position> positions; // per step
  std::array<StepId, kNumQueues> lastOfQueue;
  Clock counts{};
  Clock drained{};                           ///< what every step from now on knows to have ended
  std::array<Dependence, kNumQueues> needed; // latest unordered step of each queue met so far
  std::vector<Access> accesses;              // of the current step
  StepId current = kNoStep;
  Findings findings;
  uint64_t visited = 0;
};

/// Which section each part of the walk executes (0 micro, 1 update): long enough that every pair of neighbouring
/// executions of a run occurs. Accesses are the same in every execution of a section, so conflicts between executions
/// further apart are ordered through the ones between. It has walkAccumulation(G) micro-steps per update.
std::vector<uint32_t> walkOrder(uint32_t accumulation);
constexpr uint32_t walkAccumulation(uint32_t accumulation) { return accumulation > 1 ? 2 : 1; }

/// The execution a plan Wait means: executions are numbered per section. `here` is the waiting section and `index` its
/// execution; the k-th update (from 0) follows micro executions k*G .. (k+1)*G-1. -1: never ran, counts as done.
/// Not allowed (gives -1 too): distance 0 of update from micro.
int64_t waitedExecution(uint32_t here, int64_t index, uint32_t section, uint32_t distance, uint32_t accumulation);

} // namespace zc
