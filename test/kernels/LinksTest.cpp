// NCCL's calls on a GPU (ZC_TEST_DEVICE=cuda), of which one is enough: a rank that is a group by itself meets nobody,
// and sends to itself what it receives. Between several GPUs they are tested beside a double alone (test/cuda/double).
#include "runtime/cuda/Cuda.h"
#include "test/runtime/ExpectOk.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

using namespace zc;
using zc::test::expectOk;

namespace {

constexpr uint64_t kBytes = (uint64_t(1) << 20) + 12;

class Links : public testing::Test {
protected:
  void SetUp() override {
    const char *given = std::getenv("ZC_TEST_DEVICE");
    if (!given || std::strcmp(given, "cuda") != 0)
      GTEST_SKIP() << "ZC_TEST_DEVICE=cuda runs it";
    take(openCudaDevice({}), device);
    ASSERT_TRUE(device);
    auto made = device->makeLinks();
    if (!made.ok() && made.error().code == Code::unsupported)
      GTEST_SKIP() << made.error().message;
    take(std::move(made), links);
    take(device->makeStream(), stream);
    take(device->makeLane(*stream), lane);
    for (void **place : {&sent, &received})
      take(device->allocate(kBytes), *place);
    for (void **place : {&hostsSent, &hostsReceived})
      take(device->allocatePinned(kBytes), *place);
    std::iota(pattern.begin(), pattern.end(), char(1));
  }
  void TearDown() override {
    lane.reset();
    stream.reset();
    links.reset();
  }

  template <typename T> static void take(Result<T> result, T &to) {
    ASSERT_TRUE(result.ok()) << render(result.error());
    to = std::move(*result);
  }

  void open(AxisSet axes) {
    DeviceLinks::Id id{};
    take(links->makeId(), id);
    expectOk(links->open(axes, /*members=*/1, /*member=*/0, id));
    EXPECT_TRUE(links->isOpen(axes));
  }
  void write(void *to, uint64_t bytes) { expectOk(device->write(to, pattern.data(), bytes)); }
  void expectThere(const void *at, uint64_t bytes) {
    std::string there(bytes, '\0');
    expectOk(device->read(there.data(), at, bytes));
    EXPECT_EQ(there.compare(0, bytes, pattern, 0, bytes), 0);
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceLinks> links;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Lane> lane;
  void *sent = nullptr, *received = nullptr, *hostsSent = nullptr, *hostsReceived = nullptr;
  std::string pattern = std::string(kBytes, '\0');
};

} // namespace

TEST_F(Links, SendToThemselvesFromDeviceAndHost) {
  const AxisSet axes = AxisSet::of(0);
  open(axes);
  write(sent, kBytes);
  write(hostsSent, kBytes);
  // Several at once, one of them without a byte.
  expectOk(links->exchange(axes, *lane,
                           {{0, true, sent, kBytes},
                            {0, true, hostsSent, kBytes},
                            {0, true, sent, 0},
                            {0, false, received, kBytes},
                            {0, false, hostsReceived, kBytes},
                            {0, false, received, 0}}));
  expectOk(stream->drain());
  expectThere(received, kBytes);
  expectThere(hostsReceived, kBytes);
}

TEST_F(Links, GatherInEachOfTheirGroups) {
  const AxisSet one = AxisSet::of(0), both = AxisSet::of(0) | AxisSet::of(1);
  open(one);
  open(both);
  write(sent, kBytes);
  expectOk(links->allGather(one, *lane, sent, received, kBytes));
  expectOk(links->allGather(both, *lane, received, hostsReceived, kBytes)); // in the stream's order
  expectOk(stream->drain());
  expectThere(received, kBytes);
  expectThere(hostsReceived, kBytes);
}

TEST_F(Links, AreEndedAndSendNoMore) {
  open(AxisSet::of(0));
  links->abort();
  Status after = links->allGather(AxisSet::of(0), *lane, sent, received, kBytes);
  ASSERT_FALSE(after.ok());
  EXPECT_EQ(after.error().code, Code::peerLost);
  expectOk(stream->drain());
}
