//===- StructuresTest.cpp - what selective recomputation looks things up in ------------===//
//
// Both are compared with plain loops over random changes.
//
//===----------------------------------------------------------------------===//

#include "compiler/grad/LiveBytes.h"
#include "compiler/grad/StabbingRank.h"

#include <gtest/gtest.h>

#include <random>

using namespace zc;

TEST(LiveBytes, agreesWithAnArray) {
  std::mt19937 random(1);
  for (size_t size : {1, 2, 3, 17, 64}) {
    LiveBytes live(size);
    std::vector<int64_t> plain(size, 0);
    for (int round = 0; round < 300; ++round) {
      size_t begin = random() % size, end = begin + random() % (size - begin + 1);
      auto bytes = static_cast<int64_t>(random() % 9);
      live.add(begin, end, bytes);
      for (size_t i = begin; i < end; ++i)
        plain[i] += bytes;
      auto highest = std::max_element(plain.begin(), plain.end());
      ASSERT_EQ(live.most(), *highest);
      ASSERT_EQ(live.firstOf(*highest), static_cast<size_t>(highest - plain.begin()));
      if (begin < end) {
        ASSERT_EQ(live.most(begin, end), *std::max_element(plain.begin() + static_cast<ptrdiff_t>(begin),
                                                           plain.begin() + static_cast<ptrdiff_t>(end)));
      }
    }
  }
}

TEST(StabbingRank, agreesWithALook) {
  struct Plain {
    double cost = 0;
    size_t order = 0, begin = 0, end = 0;
    bool isThere = false;
  };
  std::mt19937 random(2);
  constexpr size_t kPositions = 37, kItems = 20;
  StabbingRank ranking(kPositions, kItems);
  std::vector<Plain> plain(kItems);
  for (size_t round = 0; round < 5000; ++round) {
    size_t item = random() % kItems;
    Plain &one = plain[item];
    switch (random() % 3) {
    case 0:
      one = {static_cast<double>(random() % 5), round, random() % kPositions, 0, true};
      one.end = one.begin + random() % (kPositions - one.begin + 1);
      ranking.set(item, one.cost, one.begin, one.end);
      break;
    case 1:
      ranking.erase(item);
      one.isThere = false;
      break;
    default:
      if (one.end == 0)
        break;
      ranking.end(item, one.end - 1);
      one.end -= one.isThere;
    }
    size_t position = random() % kPositions, best = kItems;
    for (size_t i = 0; i < kItems; ++i)
      if (const Plain &p = plain[i]; p.isThere && p.begin <= position && position < p.end)
        if (best == kItems || std::pair(p.cost, p.order) < std::pair(plain[best].cost, plain[best].order))
          best = i;
    auto found = ranking.lowestAt(position);
    ASSERT_EQ(found ? found->item : kItems, best) << round;
  }
}
