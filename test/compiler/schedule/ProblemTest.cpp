//===- ProblemTest.cpp - memory and schedule problems apart from the IR ---------===//

#include "compiler/schedule/MemoryProblem.h"
#include "compiler/schedule/ScheduleProblem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace zc;

namespace {

template <class Problem> bool isSound(const Problem &problem) {
  std::string error;
  bool sound = llvm::succeeded(problem.check(error));
  EXPECT_EQ(sound, error.empty()) << error;
  return sound;
}

template <class Problem> bool isLegal(const Problem &problem) {
  std::string error;
  bool legal = llvm::succeeded(problem.verify(error));
  EXPECT_EQ(legal, error.empty()) << error;
  return legal;
}

//===-- memory ----------------------------------------------------------------===//

/// Two buffers of 300 bytes, which take 512 each.
MemoryProblem pair(int64_t last, int64_t first, std::vector<int64_t> offsets) {
  return MemoryProblem{{{"a", 300, 0, last}, {"b", 300, first, 9}}, std::move(offsets)};
}

TEST(MemoryProblem, CheckFindsWhatIsNoBuffer) {
  EXPECT_TRUE(isSound(MemoryProblem{{{"empty", 0, 3, 3}}, {}}));
  EXPECT_FALSE(isSound(MemoryProblem{{{"negative", -1, 0, 0}}, {}}));
  EXPECT_FALSE(isSound(MemoryProblem{{{"backward", 1, 1, 0}}, {}}));
}

TEST(MemoryProblem, VerifyFindsEachViolation) {
  EXPECT_TRUE(isLegal(pair(4, 4, {0, 512})));
  EXPECT_TRUE(isLegal(pair(4, 5, {0, 0}))) << "they do not live together";
  EXPECT_FALSE(isLegal(pair(4, 4, {0, 0}))) << "the last use of one is the first of the other";
  EXPECT_FALSE(isLegal(pair(4, 4, {0, 256}))) << "the second begins inside the first";
  EXPECT_FALSE(isLegal(pair(4, 4, {256, 0}))) << "and the other way round";
  EXPECT_FALSE(isLegal(pair(4, 4, {0, 513}))) << "not aligned";
  EXPECT_FALSE(isLegal(pair(4, 4, {-256, 512}))) << "before the arena";
  EXPECT_FALSE(isLegal(pair(4, 4, {0}))) << "no place for one";
}

TEST(MemoryProblem, PeakAndBoundCountAlignedBytes) {
  MemoryProblem problem = pair(4, 5, {0, 1024});
  EXPECT_EQ(problem.peak(), 1024 + 512);
  int64_t position = -1;
  EXPECT_EQ(problem.lowerBound(&position), 512);
  EXPECT_EQ(position, 0);
  EXPECT_EQ(pair(4, 4, {}).lowerBound(&position), 1024);
  EXPECT_EQ(position, 4);
  EXPECT_EQ(MemoryProblem().lowerBound(), 0);
}

TEST(MemoryProblem, LargeBuffersShareWhatEndsBeforeThem) {
  MemoryProblem problem{{{"x", 256, 0, 9}, {"a", 1024, 0, 3}, {"b", 1024, 4, 9}, {"c", 512, 2, 3}}, {}};
  placeBySize(problem);
  EXPECT_TRUE(isLegal(problem));
  EXPECT_EQ(problem.offsets[1], problem.offsets[2]);
  EXPECT_EQ(problem.peak(), problem.lowerBound());
}

/// What training looks like: activations that live from forward to backward, and many that live for a few steps.
MemoryProblem randomMemory(std::mt19937 &random, size_t count) {
  auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  MemoryProblem problem;
  const int64_t end = 4 * static_cast<int64_t>(count);
  for (size_t i = 0; i < count; ++i) {
    int64_t first = below(end), last = below(2) ? end - first : first + below(8);
    problem.requests.push_back(
        {std::to_string(i), below(3) == 0 ? below(300) : below(100000), std::min(first, last), std::max(first, last)});
  }
  return problem;
}

TEST(MemoryProblem, RandomProblemsAreSolved) {
  std::mt19937 random(1);
  double worst = 0, sum = 0;
  const int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    MemoryProblem problem = randomMemory(random, 1 + random() % 300);
    ASSERT_TRUE(isSound(problem));
    placeBySize(problem);
    ASSERT_TRUE(isLegal(problem)) << "round " << round;
    ASSERT_GE(problem.peak(), problem.lowerBound());
    double ratio = problem.lowerBound() == 0 ? 1 : static_cast<double>(problem.peak()) / problem.lowerBound();
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  // The heuristic guarantees nothing; measured: 1.06 and 1.004. A change that makes it worse should be noticed.
  EXPECT_LT(worst, 1.1);
  EXPECT_LT(sum / rounds, 1.01);
}

/// What placeBySize does, by looking at every buffer.
static std::vector<int64_t> placedPlainly(const MemoryProblem &problem) {
  const auto &requests = problem.requests;
  std::vector<size_t> order(requests.size()), placed;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-requests[a].bytes, requests[a].first - requests[a].last) <
           std::pair(-requests[b].bytes, requests[b].first - requests[b].last);
  });
  std::vector<int64_t> offsets(requests.size(), 0);
  for (size_t index : order) {
    const int64_t bytes = problem.aligned(requests[index].bytes);
    if (bytes == 0)
      continue;
    std::vector<size_t> together;
    for (size_t other : placed)
      if (requests[other].first <= requests[index].last && requests[index].first <= requests[other].last)
        together.push_back(other);
    std::sort(together.begin(), together.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    int64_t end = 0, best = -1, smallest = INT64_MAX;
    for (size_t other : together) {
      if (int64_t gap = offsets[other] - end; gap >= bytes && gap < smallest) {
        best = end;
        smallest = gap;
      }
      end = std::max(end, offsets[other] + problem.aligned(requests[other].bytes));
    }
    offsets[index] = best >= 0 ? best : end;
    placed.push_back(index);
  }
  return offsets;
}

TEST(MemoryProblem, TheIndexChangesNoPlacement) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    MemoryProblem problem = randomMemory(random, 1 + random() % 200);
    placeBySize(problem);
    ASSERT_EQ(problem.offsets, placedPlainly(problem)) << "round " << round;
  }
}

// What backward needs of a deep chain lives together around the loss: by looking at every pair this would take minutes.
TEST(MemoryProblem, ADeepChainIsPlaced) {
  MemoryProblem problem;
  constexpr int64_t kDepth = 200000;
  for (int64_t i = 0; i < kDepth; ++i)
    problem.requests.push_back({"", 1024, i, 2 * kDepth - i});
  placeBySize(problem);
  ASSERT_TRUE(isLegal(problem));
  EXPECT_EQ(problem.peak(), problem.lowerBound());
}

//===-- schedules -------------------------------------------------------------===//

/// 0 and 1 on queue 0, 2 on queue 1 after 0; two seconds each.
ScheduleProblem three(std::vector<double> starts) {
  ScheduleProblem problem;
  problem.operations = {{"a", 0, 2, {}}, {"b", 0, 2, {}}, {"c", 1, 2, {0}}};
  problem.numQueues = 2;
  problem.starts = std::move(starts);
  return problem;
}

TEST(ScheduleProblem, CheckFindsWhatIsUnsound) {
  EXPECT_TRUE(isSound(three({})));
  ScheduleProblem problem = three({});
  problem.operations[0].after = {2};
  EXPECT_FALSE(isSound(problem)) << "depends on a later one";
  problem = three({});
  problem.operations[0].after = {0};
  EXPECT_FALSE(isSound(problem)) << "depends on itself";
  problem = three({});
  problem.operations[1].queue = 2;
  EXPECT_FALSE(isSound(problem)) << "no such queue";
  problem = three({});
  problem.operations[1].seconds = -1;
  EXPECT_FALSE(isSound(problem)) << "negative time";
}

TEST(ScheduleProblem, VerifyFindsEachViolation) {
  EXPECT_TRUE(isLegal(three({0, 2, 2})));
  EXPECT_TRUE(isLegal(three({2, 0, 4})));
  EXPECT_FALSE(isLegal(three({0, 2, 1}))) << "before its dependence ends";
  EXPECT_FALSE(isLegal(three({0, 1, 2}))) << "two at once on a queue";
  ScheduleProblem instant = three({0, 0, 2});
  instant.operations[1].seconds = 0;
  EXPECT_TRUE(isLegal(instant)) << "what takes no time meets nothing";
  EXPECT_FALSE(isLegal(three({0, 0, 2}))) << "two starts at once on a queue";
}

TEST(ScheduleProblem, QueuesRunBesideEachOther) {
  ScheduleProblem problem = three({});
  scheduleAsList(problem, 0);
  EXPECT_EQ(problem.starts, (std::vector<double>{0, 2, 2}));
  EXPECT_EQ(problem.makespan(), 4);
  // A queue in order waits for the operation that is next; one that is not takes what is ready.
  problem = ScheduleProblem();
  problem.numQueues = 2;
  problem.operations = {{"slow", 1, 5, {}}, {"user", 0, 1, {0}}, {"free", 0, 1, {}}};
  scheduleAsList(problem, 0);
  EXPECT_EQ(problem.starts, (std::vector<double>{0, 5, 6}));
  scheduleAsList(problem, 1);
  EXPECT_EQ(problem.starts, (std::vector<double>{0, 5, 0}));
}

/// What compute waits for goes before what is prefetched, though it stands behind it.
TEST(ScheduleProblem, UrgentOperationsGoFirst) {
  ScheduleProblem problem;
  problem.numQueues = 2;
  problem.operations = {{"compute", 0, 1, {}}, {"prefetch", 1, 4, {0}}, {"sum", 1, 1, {0}}, {"user", 0, 1, {2}}};
  scheduleAsList(problem, 0);
  EXPECT_EQ(problem.starts, (std::vector<double>{0, 1, 5, 6}));
  problem.operations[2].isUrgent = true;
  scheduleAsList(problem, 0);
  EXPECT_EQ(problem.starts, (std::vector<double>{0, 2, 1, 2}));
}

ScheduleProblem randomSchedule(std::mt19937 &random, size_t count) {
  ScheduleProblem problem;
  problem.numQueues = 1 + static_cast<unsigned>(random() % 4);
  for (size_t i = 0; i < count; ++i) {
    ScheduledOperation operation;
    operation.name = "random";
    operation.queue = static_cast<unsigned>(random() % problem.numQueues);
    operation.seconds = static_cast<double>(random() % 5) / 3;
    for (size_t k = random() % 4; k > 0 && i > 0; --k)
      operation.after.push_back(random() % i); // the same one twice, sometimes
    problem.operations.push_back(std::move(operation));
  }
  return problem;
}

TEST(ScheduleProblem, RandomProblemsAreSolved) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    ScheduleProblem problem = randomSchedule(random, random() % 200);
    ASSERT_TRUE(isSound(problem));
    scheduleAsList(problem, 0);
    ASSERT_TRUE(isLegal(problem)) << "round " << round;
    double previous = 0, total = 0;
    for (size_t i = 0; i < problem.operations.size(); ++i) {
      total += problem.operations[i].seconds;
      if (problem.operations[i].queue != 0)
        continue;
      ASSERT_GE(problem.starts[i], previous) << "queue 0 keeps its order";
      previous = problem.starts[i];
    }
    EXPECT_LE(problem.makespan(), total + 1e-9) << "some queue is always busy";
  }
}

} // namespace
