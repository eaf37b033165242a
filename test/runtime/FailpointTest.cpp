#include "runtime/base/Failpoint.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <thread>

using namespace zc;

namespace {
struct Failpoints : ::testing::Test {
  void TearDown() override {
    ASSERT_TRUE(setFailpoints("").ok());
    setFaultContext(-1, -1);
  }
  static void set(const char *rules) {
    Status status = setFailpoints(rules);
    ASSERT_TRUE(status.ok()) << render(status.error());
  }
  static int errorAt(const char *site) {
    auto action = failpoint(site);
    return action && action->kind == FaultAction::Kind::error ? action->errnum : 0;
  }
};
} // namespace

TEST_F(Failpoints, AreOffWithoutRules) { EXPECT_FALSE(failpoint("spill.write")); }

TEST_F(Failpoints, ARuleWithoutSelectorsHoldsForEveryPassageOfItsSite) {
  set("spill.write:ENOSPC");
  EXPECT_EQ(errorAt("spill.write"), ENOSPC);
  EXPECT_EQ(errorAt("spill.write"), ENOSPC);
  EXPECT_EQ(errorAt("spill.read"), 0);
}

TEST_F(Failpoints, CountsThePassagesThatFit) {
  set("a@n=2:EIO; b@n=2+:EIO");
  for (int expected : {0, EIO, 0})
    EXPECT_EQ(errorAt("a"), expected);
  for (int expected : {0, EIO, EIO})
    EXPECT_EQ(errorAt("b"), expected);
}

TEST_F(Failpoints, SelectsRankAndStepOfTheThread) {
  set(" a@rank=1 , step=4 : EIO ;");
  EXPECT_EQ(errorAt("a"), 0) << "no context";
  setFaultContext(1, 3);
  EXPECT_EQ(errorAt("a"), 0);
  setFaultContext(0, 4);
  EXPECT_EQ(errorAt("a"), 0);
  setFaultContext(1, 4);
  EXPECT_EQ(errorAt("a"), EIO);
  std::thread([] { EXPECT_EQ(errorAt("a"), 0) << "another thread"; }).join();
}

TEST_F(Failpoints, ActionsForTheSite) {
  set("a:short; b:flip");
  EXPECT_EQ(failpoint("a")->kind, FaultAction::Kind::shorten);
  EXPECT_EQ(failpoint("b")->kind, FaultAction::Kind::flip);
}

TEST_F(Failpoints, Delays) {
  set("a:delay=30ms");
  auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(failpoint("a"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
}

TEST_F(Failpoints, EndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto pass = [](const char *rules) {
    if (setFailpoints(rules).ok())
      failpoint("a");
  };
  EXPECT_EXIT(pass("a:SIGKILL"), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(pass("a:crash"), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(pass("a:exit=3"), ::testing::ExitedWithCode(3), "");
}

TEST_F(Failpoints, BadRulesAreUsageErrorsAndChangeNothing) {
  set("a:EIO");
  for (const char *bad : {"a", ":EIO", "a:EWHAT", "a@rank=:EIO", "a@rank=x:EIO", "a@n=0:EIO", "a@n=2-:EIO", "a:delay=3",
                          "a@:EIO", "a@step=1,:EIO", "b:EIO;a@node=1:EIO", "a:exit=256"}) {
    Status status = setFailpoints(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().code, Code::usage);
  }
  EXPECT_EQ(errorAt("a"), EIO);
}
