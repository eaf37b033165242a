//===- Timeline.h - how far a queue is ----------------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>

namespace zc {

/// A counter that only grows; failure is a value of it, larger than any other, so that whoever waits wakes up. What the
/// advancing thread wrote before is visible to whoever waited.
class alignas(64) Timeline {
public:
  /// One more step is finished, or several.
  void advance(uint64_t steps = 1);
  /// Nothing more will come.
  void fail();
  /// Is the counter at least `target`, or has the timeline failed?
  bool hasReached(uint64_t target) const { return value->load() >= target; }
  /// Until the counter is at least `target`: a short spin, then sleep. False if the timeline has failed.
  bool waitFor(uint64_t target);
  bool hasFailed() const { return (value->load(std::memory_order_acquire) & kFailed) != 0; }

  /// Counts in `word` from now on, which is zero and where a device can read it. Before anybody uses the timeline.
  void countIn(std::atomic<uint64_t> &word) { value = &word; }
  /// What a device waits for: at least the target, compared cyclically.
  const std::atomic<uint64_t> &word() const { return *value; }

private:
  /// Not the highest bit: a device compares cyclically, and must be let go as well.
  static constexpr uint64_t kFailed = uint64_t(1) << 62;
  void wakeSleepers();

  std::atomic<uint64_t> own{0};
  std::atomic<uint64_t> *value = &own;
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> version{0}; ///< what sleepers sleep on; moves when there are some
};

} // namespace zc
