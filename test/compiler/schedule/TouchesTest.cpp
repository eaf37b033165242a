//===- TouchesTest.cpp - who used which elements, against a list of all ------------===//

#include "compiler/schedule/Touches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace zc;

namespace {

using Numbered = Touch<int>;

std::vector<int> found(const Touches<int> &touches, const Numbered &touch) {
  std::vector<int> who;
  touches.forEachConflict(touch, [&](const Numbered &other) { who.push_back(other.by); });
  std::sort(who.begin(), who.end());
  return who;
}

TEST(Touches, FindWhatALookAtAllFinds) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    Touches<int> touches;
    std::vector<Numbered> all;
    for (int i = 0; i < 200; ++i) {
      auto begin = static_cast<int64_t>(random() % 100), length = static_cast<int64_t>(random() % (1u << random() % 7));
      const Numbered touch{i, random() % 2 == 0, random() % 8 == 0, begin, begin + length};
      std::vector<int> expected;
      for (const Numbered &other : all)
        if (other.meets(touch) && (other.writes || touch.writes))
          expected.push_back(other.by);
      ASSERT_EQ(found(touches, touch), expected) << "round " << round << ", touch " << i;
      if (touch.writes) {
        all.erase(std::remove_if(all.begin(), all.end(), [&](const Numbered &other) { return touch.covers(other); }),
                  all.end());
        touches.eraseCovered(touch);
      }
      all.push_back(touch);
      touches.add(touch);
    }
  }
}

/// Each of many parts is written, behind a reader of the whole, and looked at by few.
TEST(Touches, PartsAreFoundWithoutALookAtTheOthers) {
  constexpr int kParts = 20000;
  Touches<int> touches;
  touches.add({-1, false, false, 0, kParts * 64});
  size_t visited = 0;
  for (int i = 0; i < kParts; ++i) {
    const Numbered part{i, true, false, i * 64, (i + 1) * 64};
    visited += touches.forEachConflict(part, [](const Numbered &) {});
    touches.add(part);
  }
  EXPECT_LE(visited, size_t{3} * kParts);
}

/// Parameters are read where the bucket is, each as the whole.
TEST(Touches, ReadersOfTheWholeDoNotLookAtEachOther) {
  constexpr int kReaders = 20000;
  Touches<int> touches;
  touches.add({-1, true, false, 0, kReaders});
  size_t visited = 0;
  for (int i = 0; i < kReaders; ++i) {
    const Numbered reader{i, false, false, 0, kReaders};
    visited += touches.forEachConflict(reader, [](const Numbered &) {});
    touches.add(reader);
  }
  EXPECT_EQ(visited, size_t{kReaders});
}

} // namespace
