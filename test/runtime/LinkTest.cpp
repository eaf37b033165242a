#include "runtime/device/Link.h"
#include "runtime/exec/TierMemory.h"
#include "test/support/Seconds.h"

#include <gtest/gtest.h>

using namespace zc;
using zc::test::secondsOf;

namespace {

TEST(Link, RatesAreRead) {
  auto rates = parseLinkRates("h2d=2GB/s, comm=100MiB/s");
  ASSERT_TRUE(rates.ok());
  EXPECT_EQ((*rates)[static_cast<size_t>(Link::h2d)], 2e9);
  EXPECT_EQ((*rates)[static_cast<size_t>(Link::comm)], 100.0 * 1048576);
  EXPECT_EQ((*rates)[static_cast<size_t>(Link::nvmeRead)], 0);
  for (const char *bad : {"h2d", "h2d=", "h2d=2GB", "h2d=0B/s", "disk=1GB/s", "h2d=1GB/s,,", "=1GB/s", "h2d=-1GB/s"})
    EXPECT_EQ(parseLinkRates(bad).status().ok() ? Code::ok : parseLinkRates(bad).error().code, Code::usage) << bad;
}

// Times are in ns: 10 MB/s move 20,000 bytes in 2,000,000.
constexpr int64_t kEach = 2000000;

TEST(Link, TransfersFollowEachOther) {
  LinkSchedule link(10e6);
  int64_t now = 5;
  for (int i = 1; i <= 20; ++i) {
    ASSERT_EQ(link.busyUntil(now, 20000, now + 1), 5 + i * kEach);
    link.wokeAt(now = 5 + i * kEach);
  }
}

TEST(Link, WhatALateWakeUpLostIsCaughtUp) {
  LinkSchedule link(10e6);
  ASSERT_EQ(link.busyUntil(0, 20000, 1), kEach);
  link.wokeAt(kEach + 300);
  ASSERT_EQ(link.busyUntil(kEach + 300, 20000, kEach + 301), 2 * kEach);
  link.wokeAt(2 * kEach); // in time: nothing is left to be caught up
  ASSERT_EQ(link.busyUntil(2 * kEach + 700, 20000, 2 * kEach + 701), 3 * kEach + 700);
}

TEST(Link, IdleTimeIsNotSaved) {
  LinkSchedule link(10e6);
  ASSERT_EQ(link.busyUntil(0, 20000, 1), kEach);
  link.wokeAt(kEach);
  ASSERT_EQ(link.busyUntil(50 * kEach, 20000, 50 * kEach + 1), 51 * kEach);
}

TEST(Link, BytesThatTookLongerThemselvesAreNotHeldBack) {
  LinkSchedule link(10e6);
  ASSERT_EQ(link.busyUntil(0, 20000, 3 * kEach), 3 * kEach);
  ASSERT_EQ(link.busyUntil(3 * kEach, 20000, 3 * kEach + 1), 4 * kEach) << "and nothing of it is owed";
}

TEST(Link, CopiesOfALinkShareIt) {
  planpb::Plan plan;
  ExecutorOptions options;
  options.links[static_cast<size_t>(Link::h2d)] = 10e6;
  TierMemory memory(plan);
  ASSERT_TRUE(memory.map(options).ok());
  KernelSpec spec;
  spec.name = "h2d";
  spec.operands = {{DType::u8, {20000}}, {DType::u8, {20000}}};
  spec.numInputs = 1;
  std::vector<std::unique_ptr<Kernel>> copies;
  for (int i = 0; i < 10; ++i)
    copies.push_back(memory.makeCopy(spec));
  std::vector<char> from(20000, 1), to(20000);
  void *operands[] = {from.data(), to.data()};
  // From below only: how late a shared machine wakes a sleeper is not the link's fault.
  double seconds = secondsOf([&] {
    for (auto &copy : copies)
      EXPECT_TRUE(copy->run(operands, {}).ok());
  });
  EXPECT_GE(seconds, 0.02);
  EXPECT_EQ(to, from);
}

} // namespace
