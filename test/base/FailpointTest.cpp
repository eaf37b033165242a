#include "base/Failpoint.h"

#include <atomic>
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
  set("step.begin@n=2:EIO; ckpt.write@n=2+:EIO");
  for (int expected : {0, EIO, 0})
    EXPECT_EQ(errorAt("step.begin"), expected);
  for (int expected : {0, EIO, EIO})
    EXPECT_EQ(errorAt("ckpt.write"), expected);
}

TEST_F(Failpoints, SelectsRankAndStepOfTheThread) {
  set(" step.begin@rank=1 , step=4 : EIO ;");
  EXPECT_EQ(errorAt("step.begin"), 0) << "no context";
  setFaultContext(1, 3);
  EXPECT_EQ(errorAt("step.begin"), 0);
  setFaultContext(0, 4);
  EXPECT_EQ(errorAt("step.begin"), 0);
  setFaultContext(1, 4);
  EXPECT_EQ(errorAt("step.begin"), EIO);
  std::thread([] { EXPECT_EQ(errorAt("step.begin"), 0) << "another thread"; }).join();
}

TEST_F(Failpoints, ActionsForTheSite) {
  set("step.begin:short; ckpt.write:flip");
  EXPECT_EQ(failpoint("step.begin")->kind, FaultAction::Kind::shorten);
  EXPECT_EQ(failpoint("ckpt.write")->kind, FaultAction::Kind::flip);
}

TEST_F(Failpoints, Delays) {
  set("step.begin:delay=30ms");
  auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(failpoint("step.begin"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
}

TEST_F(Failpoints, EndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto pass = [](const char *rules) {
    if (setFailpoints(rules).ok())
      failpoint("step.begin");
  };
  EXPECT_EXIT(pass("step.begin:SIGKILL"), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(pass("step.begin:crash"), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(pass("step.begin:exit=3"), ::testing::ExitedWithCode(3), "");
}

/// Of the process's signals any thread that does not block them may hear, and has begun another step by then.
TEST_F(Failpoints, SignalsAreHeardByTheThreadThatPasses) {
  static std::atomic<pthread_t> heard;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { heard = ::pthread_self(); };
  ASSERT_EQ(::sigaction(SIGTERM, &action, &before), 0);
  set("step.begin:SIGTERM");
  std::thread([] {
    failpoint("step.begin");
    EXPECT_TRUE(::pthread_equal(heard, ::pthread_self()));
  }).join();
  ::sigaction(SIGTERM, &before, nullptr);
}

TEST_F(Failpoints, BadRulesAreUsageErrorsAndChangeNothing) {
  set("step.begin:EIO");
  for (const char *bad : {"step.begin", ":EIO", "step.begin:EWHAT", "step.begin@rank=:EIO", "step.begin@rank=x:EIO",
                          "step.begin@n=0:EIO", "step.begin@n=2-:EIO", "step.begin:delay=3", "step.begin@:EIO",
                          "step.begin@step=1,:EIO", "ckpt.write:EIO;step.begin@node=1:EIO", "step.begin:exit=256"}) {
    Status status = setFailpoints(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().code, Code::usage);
  }
  EXPECT_EQ(errorAt("step.begin"), EIO);
}

TEST_F(Failpoints, OfANameThatIsNoneAreRefused) {
  Status status = setFailpoints("stp.begin:EIO");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::usage);
  EXPECT_EQ(status.error().message, "there is no failpoint \"stp.begin\"");
  EXPECT_EQ(status.error().help, "did you mean \"step.begin\"?");
  EXPECT_EQ(setFailpoints("disk:EIO").error().help.rfind("there are nothing, arena.reserve", 0), 0u);
}
