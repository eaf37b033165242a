#include "runtime/train/Watchdog.h"

#include "test/runtime_train/TempFolder.h"

#include <chrono>
#include <gtest/gtest.h>

using namespace zc;
using namespace zc::train;

namespace {

constexpr double kSeconds = 1.5; // a busy machine holds a thread up for less

/// Two ranks of this process and a watchdog that tells instead of ending it.
class Watched : public ::testing::Test {
protected:
  void SetUp() override {
    auto made = FlightRecorder::create(Mesh::ofNodes(2, 2));
    ASSERT_TRUE(made.ok());
    recorder = std::move(*made);
    watchdog.start(0, 2, kSeconds, [this](const Error &error) {
      std::lock_guard<std::mutex> lock(mutex);
      said = error.message;
      wake.notify_all();
    });
    watchdog.observe(*recorder, folder.path + "/flight.json");
  }
  /// What it says within so long; "": nothing.
  std::string saysWithin(double seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    wake.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return !said.empty(); });
    return said;
  }

  zc::test::TempFolder folder;
  std::unique_ptr<FlightRecorder> recorder;
  std::atomic<uint64_t> counts[2] = {{0}, {0}};
  std::mutex mutex;
  std::condition_variable wake;
  std::string said;
  Watchdog watchdog;
};

TEST_F(Watched, SeesQueuesThatDoNotGetOn) {
  Awaited own(1, [this] { return counts[1].load(); }, [] { return std::string("COMM has passed all"); });
  Awaited::Turn turn(own);
  EXPECT_NE(saysWithin(60).find("rank 1 waits for its queues; of rank 1's queues COMM has passed all"),
            std::string::npos)
      << said;
}

TEST_F(Watched, LetsSlowQueuesGoOn) {
  Awaited own(1, [this] { return counts[1].load(); }, [] { return std::string("COMM has passed all"); });
  Awaited::Turn turn(own);
  for (int i = 0; i < 8; ++i, ++counts[1])
    ASSERT_EQ(saysWithin(kSeconds / 4), "");
}

TEST_F(Watched, LetsARankWaitForOneThatGetsOn) {
  Awaited own(
      0, [this] { return counts[0].load(); }, [] { return std::string("COMM has passed all"); }),
      others(1, [this] { return counts[1].load(); }, [] { return std::string("COMM has passed all"); });
  Awaited::Turn turn(own), turnOfOthers(others);
  for (int i = 0; i < 8; ++i, ++counts[1])
    ASSERT_EQ(saysWithin(kSeconds / 4), "");
  EXPECT_NE(saysWithin(60), ""); // until it does not either
}

TEST_F(Watched, SaysNothingOfWhoWaitsForNothing) {
  Awaited own(0, [this] { return counts[0].load(); }, [] { return std::string("COMM has passed all"); });
  {
    Awaited::Turn turn(own);
  }
  EXPECT_EQ(saysWithin(2 * kSeconds), "");
}

TEST(Watchdog, GivesASignOfItsRanksBeforeItsFirstLook) {
  auto recorder = FlightRecorder::create(Mesh::ofNodes(3, 3));
  ASSERT_TRUE(recorder.ok());
  zc::test::TempFolder folder;
  Watchdog watchdog;
  watchdog.start(1, 2, 1000, [](const Error &) {});
  watchdog.observe(**recorder, folder.path + "/flight.json");
  EXPECT_EQ((*recorder)->log(0).beats(), 0u); // of another process
  EXPECT_GE((*recorder)->log(1).beats(), 1u); // more where a look, half a second later, came before this
  EXPECT_GE((*recorder)->log(2).beats(), 1u);
  watchdog.stop();
}

TEST_F(Watched, SeesACollectiveThatIsNotOver) {
  recorder->log(0).begin({Collective::barrier, AxisSet::all(), DType::u8, 0, 0}, 3);
  EXPECT_NE(saysWithin(60).find("rank 0 waits in barrier number 1 of step 3"), std::string::npos) << said;
}

} // namespace
