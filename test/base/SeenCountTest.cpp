#include "base/SeenCount.h"

#include <gtest/gtest.h>

using namespace zc;

TEST(SeenCount, IsWhatItIsSinceItChanged) {
  SeenCount seen;
  EXPECT_EQ(seen.count(), 0u);
  EXPECT_FALSE(seen.look(0, 10)) << "it was 0 before anybody looked";
  EXPECT_EQ(seen.since(), 0);
  EXPECT_TRUE(seen.look(3, 20));
  EXPECT_FALSE(seen.look(3, 30));
  EXPECT_EQ(seen.count(), 3u);
  EXPECT_EQ(seen.since(), 20);
  EXPECT_TRUE(seen.look(4, 40));
  EXPECT_EQ(seen.since(), 40);
}

TEST(SeenCount, ChangesWhereItFalls) { // of what ends is seen 0
  SeenCount seen(7, 10);
  EXPECT_TRUE(seen.look(0, 20));
  EXPECT_EQ(seen.count(), 0u);
  EXPECT_EQ(seen.since(), 20);
  EXPECT_TRUE(seen.look(7, 30)) << "and begins again";
  EXPECT_EQ(seen.since(), 30);
}

TEST(SeenCount, BeginsAtWhatItIsGiven) {
  SeenCount seen(7, 10);
  EXPECT_FALSE(seen.look(7, 20));
  EXPECT_EQ(seen.since(), 10);
}
