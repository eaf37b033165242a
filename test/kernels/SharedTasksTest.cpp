// What threads share: tasks and ranges are taken once each, and by whoever has time (kernels/cpu/SharedTasks.h).
#include "kernels/cpu/SharedTasks.h"
#include "kernels/cpu/fast/Fast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

namespace zc::cpu {
namespace {

std::vector<int64_t> takenBy(SharedTasks &tasks, int thread) {
  std::vector<int64_t> taken;
  for (int64_t task = tasks.take(thread); task >= 0; task = tasks.take(thread))
    taken.push_back(task);
  return taken;
}

TEST(SharedTasks, AThreadTakesItsOwnInOrderThenOthers) {
  SharedTasks tasks(10, 3); // 0 to 2, 3 to 5, 6 to 9
  EXPECT_EQ(tasks.take(1), 3);
  EXPECT_EQ(takenBy(tasks, 2), (std::vector<int64_t>{6, 7, 8, 9, 0, 1, 2, 4, 5}));
  EXPECT_EQ(tasks.take(0), -1);
  EXPECT_EQ(tasks.take(1), -1);
}

TEST(SharedTasks, HaveOwners) {
  const SharedTasks tasks(10, 3), few(2, 4);
  std::vector<int> owners;
  for (int64_t task = 0; task < 10; ++task)
    owners.push_back(tasks.ownerOf(task));
  EXPECT_EQ(owners, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(few.ownerOf(0), 1);
  EXPECT_EQ(few.ownerOf(1), 3);
}

TEST(SharedTasks, OfMoreThreadsThanTasksAndThanRanges) {
  SharedTasks none(0, 4);
  EXPECT_EQ(none.take(3), -1);
  for (int threads : {1, 7, 64, 200}) {
    SharedTasks tasks(5, threads);
    std::vector<int64_t> taken = takenBy(tasks, threads - 1);
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(taken, (std::vector<int64_t>{0, 1, 2, 3, 4})) << threads;
  }
}

TEST(SharedTasks, EachIsTakenOnceByThreadsAtATime) {
  constexpr int kThreads = 4;
  constexpr int64_t kTasks = 20000;
  SharedTasks tasks(kTasks, kThreads);
  std::vector<std::vector<int64_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { taken[static_cast<size_t>(i)] = takenBy(tasks, i); });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<int64_t> all;
  for (const auto &some : taken)
    all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(kTasks);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(ParallelRanges, CoverAllOnceAtMultiplesOfTheGranule) {
  for (int threads : {1, 2, 3, 8})
    for (int64_t n : {0, 1, 63, 64, 65, 1000, 100000})
      for (int64_t granule : {1, 64}) {
        std::mutex mutex;
        std::vector<Range> ranges;
        parallelRanges(threads, n, granule, [&](int64_t begin, int64_t end, int thread) {
          const std::lock_guard<std::mutex> lock(mutex);
          EXPECT_LT(thread, threads);
          ranges.push_back({begin, end});
        });
        std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.begin < b.begin; });
        int64_t at = 0;
        for (const Range &range : ranges) {
          EXPECT_EQ(range.begin, at);
          EXPECT_EQ(range.begin % granule, 0);
          EXPECT_LT(range.begin, range.end);
          at = range.end;
        }
        EXPECT_EQ(at, n) << threads << " threads, granule " << granule;
      }
}

/// One that waits for the others to have done all the rest: with a half each they would wait for it.
TEST(ParallelRanges, AThreadThatIsSlowIsHelped) {
  if (omp_get_max_threads() < 2 || omp_get_thread_limit() < 2)
    GTEST_SKIP() << "OpenMP gives one thread";
  std::atomic<int64_t> done{0};
  constexpr int64_t kPieces = 32; // of two threads
  int64_t byFirst = 0;
  parallelRanges(2, kPieces, 1, [&](int64_t begin, int64_t end, int) {
    if (begin == 0) {
      while (done.load() < kPieces - 1)
        std::this_thread::yield();
      byFirst = end - begin;
    }
    done += end - begin;
  });
  EXPECT_EQ(done.load(), kPieces);
  EXPECT_EQ(byFirst, 1);
}

} // namespace
} // namespace zc::cpu
