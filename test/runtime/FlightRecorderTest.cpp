#include "runtime/comm/FlightRecorder.h"

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace zc;

namespace {
struct TempFile {
  TempFile() {
    char text[] = "/tmp/zc-flight-XXXXXX";
    int fd = ::mkstemp(text);
    ::close(fd);
    path = text;
  }
  ~TempFile() { ::unlink(path.c_str()); }
  std::string path;
};
constexpr Call kGather = {Collective::allGather, AxisSet::of(1), DType::u8, 0, 64};
} // namespace

TEST(FlightRecorder, KeepsTheLastCollectives) {
  auto recorder = FlightRecorder::create(Mesh::ofNodes(2, 2));
  ASSERT_TRUE(recorder.ok());
  FlightLog &log = (*recorder)->log(1);
  EXPECT_TRUE(log.entries().empty());
  for (int step = 1; step <= 100; ++step) {
    log.begin(kGather, step);
    EXPECT_TRUE(log.isInside());
    if (step < 100)
      log.end();
  }
  std::vector<FlightEntry> entries = log.entries();
  ASSERT_EQ(entries.size(), FlightLog::kEntries);
  EXPECT_EQ(entries.front().number, 101 - FlightLog::kEntries);
  EXPECT_EQ(entries.back().step, 100);
  EXPECT_EQ(entries.back().end, 0);
  EXPECT_NE(entries.front().end, 0);
  EXPECT_TRUE(entries.back().call == kGather);
}

TEST(FlightRecorder, SaysWhoIsLate) {
  auto recorder = FlightRecorder::create(Mesh::ofNodes(3, 3));
  ASSERT_TRUE(recorder.ok());
  for (int rank : {0, 1, 2}) {
    (*recorder)->log(rank).begin(kGather, 4);
    (*recorder)->log(rank).end();
  }
  for (int rank : {0, 2})
    (*recorder)->log(rank).begin({Collective::allReduce, AxisSet::all(), DType::f32, 0, 8}, 5);
  std::string why = (*recorder)->explain(0, {0, 0, 0}, 1);
  EXPECT_EQ(why.find("rank 0 waits in all_reduce number 2 of step 5 for rank 1: it left all_gather number 1 of step 4"),
            0u)
      << why;
  // A rank that knows whom it waits for is believed.
  (*recorder)->log(0).waitFor(2);
  EXPECT_NE((*recorder)->explain(0, {0, 0, 0}, 1).find("for rank 2: it is in all_reduce"), std::string::npos);
  // The one it waits for may wait for a third in turn.
  (*recorder)->log(2).waitFor(1);
  EXPECT_NE((*recorder)->explain(0, {0, 0, 0}, 1).find("for rank 1: it left all_gather"), std::string::npos);
  (*recorder)->log(2).waitFor(0);
  EXPECT_NE((*recorder)->explain(0, {0, 0, 0}, 1).find("for rank 2: it is in all_reduce"), std::string::npos);
  (*recorder)->log(2).waitFor(2);
  EXPECT_NE((*recorder)->explain(0, {0, 0, 0}, 1).find("for rank 2: it is in all_reduce"), std::string::npos);
  // One whose process gives no sign comes first.
  std::vector<int64_t> silent = {0, 2000000000, 0};
  why = (*recorder)->explain(0, silent, 1000000000);
  EXPECT_NE(why.find("for rank 1: it left all_gather number 1 of step 4"), std::string::npos) << why;
  EXPECT_NE(why.find("no sign for 2.000 s"), std::string::npos) << why;
  // And what it waits for says more than where it was.
  (*recorder)->log(1).setPlace("reading \"data.npy\"", 3000000000);
  why = (*recorder)->explain(0, {0, 0, 0}, 1);
  EXPECT_EQ(why.find("it left"), std::string::npos) << why;
  (*recorder)->log(0).waitFor(1);
  why = (*recorder)->explain(0, {0, 0, 0}, 1);
  EXPECT_NE(why.find("for rank 1: it has been reading \"data.npy\" for 3.000 s"), std::string::npos) << why;
  // Out of collectives it is its queues that it waits for, and nobody in the last one.
  (*recorder)->log(1).setPlace("", 0);
  (*recorder)->log(0).end();
  EXPECT_EQ((*recorder)->log(0).waitsFor(), -1);
  why = (*recorder)->explain(0, silent, 1000000000);
  EXPECT_EQ(
      why.find("rank 0 waits for its queues (last collective: all_reduce number 2 of step 5) and for rank 1: it left"),
      0u)
      << why;
  // One that was stopped in an earlier collective is late as well.
  (*recorder)->log(0).begin(kGather, 5);
  (*recorder)->log(2).end();
  (*recorder)->log(2).begin(kGather, 5);
  (*recorder)->log(1).begin({Collective::allReduce, AxisSet::all(), DType::f32, 0, 8}, 5);
  why = (*recorder)->explain(0, {0, 0, 0}, 1);
  EXPECT_NE(why.find("for rank 1: it is in all_reduce number 2 of step 5"), std::string::npos) << why;
  EXPECT_TRUE((*recorder)->claim());
  EXPECT_FALSE((*recorder)->claim());
}

/// What a stream was given is not over when the host goes on.
TEST(FlightRecorder, SaysWhatIsOnlyEnqueued) {
  auto recorder = FlightRecorder::create(Mesh::ofNodes(2, 2));
  ASSERT_TRUE(recorder.ok());
  for (int rank : {0, 1})
    for (int call = 0; call <= 1 - rank; ++call) {
      (*recorder)->log(rank).begin(kGather, 4, /*isEnqueued=*/true);
      (*recorder)->log(rank).end();
    }
  (*recorder)->log(1).setQueues("COMM has passed \"all_gather\" of node \"w\" in a micro-step");
  std::string why = (*recorder)->explain(0, {0, 0}, 1);
  EXPECT_EQ(why.find("rank 0 waits for its queues (last collective enqueued: all_gather number 2 of step 4) and for "
                     "rank 1: it enqueued all_gather number 1 of step 4"),
            0u)
      << why;
  EXPECT_NE(why.find("; of rank 1's queues COMM has passed \"all_gather\" of node \"w\""), std::string::npos) << why;
  std::string json = (*recorder)->toJson();
  EXPECT_NE(json.find("\"queues\": \"COMM has passed \\\"all_gather\\\" of node"), std::string::npos) << json;
  EXPECT_NE(json.find("\"enqueued_in_seconds\": 0."), std::string::npos) << json;
  EXPECT_EQ(json.find("took_seconds"), std::string::npos) << json;
}

TEST(FlightRecorder, IsSharedByProcessesAndOutlivesThem) {
  TempFile file;
  auto recorder = FlightRecorder::open(file.path, Mesh::ofNodes(2, 1), true);
  ASSERT_TRUE(recorder.ok()) << render(recorder.error());
  pid_t child = ::fork();
  if (child == 0) {
    auto theirs = FlightRecorder::open(file.path, Mesh::ofNodes(2, 1), false);
    if (theirs)
      (*theirs)->log(1).begin(kGather, 7);
    ::_exit(theirs ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_EQ((*recorder)->log(1).entries().size(), 1u);
  EXPECT_EQ((*recorder)->log(1).entries()[0].step, 7);
  EXPECT_NE((*recorder)->toJson().find("\"collective\": \"all_gather\", \"axis\": \"local\""), std::string::npos);
}

TEST(FlightRecorder, AFileOfAnotherJobIsRefused) {
  TempFile file;
  ASSERT_TRUE(FlightRecorder::open(file.path, Mesh::ofNodes(2, 2), true).ok());
  EXPECT_EQ(FlightRecorder::open(file.path, Mesh::ofNodes(64, 64), false).error().code, Code::io);
  EXPECT_EQ(FlightRecorder::open(file.path + "-none", Mesh::ofNodes(2, 2), false).error().code, Code::io);
}
