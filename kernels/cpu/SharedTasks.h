//===- SharedTasks.h - tasks that threads of different speed share ------------------===//
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace zc::cpu {

/// Tasks [0, count), each taken once. A thread has a range of its own, which it takes in order, and then takes what is
/// left of others': cores of one machine are not equally fast (hybrid processors, a shared host's virtual ones: of the
/// two that this was measured on, the slower one often had 0.4 of the other's rate), and where each had its half both
/// would need the slower one's time.
class SharedTasks {
public:
  SharedTasks(int64_t count, int threads) : owners(threads < kMostOwners ? threads : kMostOwners) {
    for (int i = 0; i < owners; ++i) {
      ranges[static_cast<size_t>(i)].next.store(count * i / owners, std::memory_order_relaxed);
      ranges[static_cast<size_t>(i)].end = count * (i + 1) / owners;
    }
  }

  /// The next one for a thread; -1: none is left.
  int64_t take(int thread) {
    for (int i = 0; i < owners; ++i) {
      Owned &range = ranges[static_cast<size_t>((thread + i) % owners)];
      // Looked at first: a counter that all add to beyond its end would go around the cores for nothing.
      if (range.next.load(std::memory_order_relaxed) >= range.end)
        continue;
      if (const int64_t task = range.next.fetch_add(1, std::memory_order_relaxed); task < range.end)
        return task;
    }
    return -1;
  }

  /// Whose range a task is in.
  int ownerOf(int64_t task) const {
    int owner = 0;
    while (ranges[static_cast<size_t>(owner)].end <= task)
      ++owner;
    return owner;
  }

private:
  static constexpr int kMostOwners = 64; ///< more threads share ranges
  struct alignas(64) Owned {
    std::atomic<int64_t> next;
    int64_t end;
  };
  int owners;
  std::array<Owned, kMostOwners> ranges;
};

} // namespace zc::cpu
