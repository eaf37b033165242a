#include "runtime/device/Link.h"
#include "runtime/exec/TierMemory.h"
#include "test/support/Seconds.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

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

TEST(Link, AThrottleHoldsItsRate) {
  Throttle throttle(10e6);
  for (bool idles : {false, true}) { // idle time is not saved
    double seconds = 0;
    for (int i = 0; i < 20; ++i) {
      seconds += secondsOf([&] {
        throttle.begin();
        throttle.finish(20000); // 2 ms each
      });
      if (idles)
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    EXPECT_GE(seconds, 0.039);
    EXPECT_LT(seconds, 1); // loose: shared machines
  }
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
  double seconds = secondsOf([&] {
    for (auto &copy : copies)
      EXPECT_TRUE(copy->run(operands, {}).ok());
  });
  EXPECT_GE(seconds, 0.0199);
  EXPECT_EQ(to, from);
}

} // namespace
