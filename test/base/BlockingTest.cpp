#include "base/Blocking.h"
#include "test/base/AllocationCount.h"

#include <gtest/gtest.h>

using namespace zc;

/// A watchdog looks in the middle of steps that allocate nothing, also where one of them is reading or writing.
TEST(Blocking, WhoLooksAsksForMemoryOnlyWhereOneTakesLong) {
  const std::string name = "a/folder/of/a/run/metrics.jsonl";
  Blocking writing("writing", name), within("reading", name);
  const uint64_t before = test::allocations();
  EXPECT_TRUE(blockedThreads(int64_t(3600e9)).empty());
  EXPECT_EQ(test::allocations(), before);
  const std::vector<BlockedThread> found = blockedThreads(0);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where, "writing \"" + name + "\"");
  EXPECT_GT(found[0].since, 0);
}
