#include "runtime/device/Nvme.h"
#include "base/Failpoint.h"
#include "runtime/device/Arena.h"
#include "test/base/AllocationCount.h"
#include "test/runtime/ExpectOk.h"

#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace zc;
using zc::test::expectOk;

namespace {

constexpr uint64_t kBytes = (uint64_t(37) << 20) + 3 * 4096; // no multiple of a piece

/// A rank's NVMe tier with two buffers of its size, on the engine that `faults` allow.
struct Tier {
  explicit Tier(const char *faults = "") {
    EXPECT_TRUE(setFailpoints(faults).ok());
    NvmeOptions options;
    options.folder = testing::TempDir();
    auto made = NvmeArena::create(options, kBytes, notes);
    EXPECT_TRUE(made.ok()) << render(made.error());
    arena = std::move(*made);
    channel = NvmeChannel::open(*arena, {{from.data(), kBytes}, {to.data(), kBytes}}, notes);
    std::mt19937_64 random(7);
    for (uint64_t i = 0; i < kBytes / 8; ++i)
      reinterpret_cast<uint64_t *>(from.data())[i] = random();
  }
  ~Tier() { EXPECT_TRUE(setFailpoints("").ok()); }
  bool isSame(uint64_t offset, uint64_t bytes) const {
    return std::memcmp(from.data() + offset, to.data() + offset, bytes) == 0;
  }

  std::vector<std::string> notes;
  Arena from = std::move(*Arena::map(kBytes)), to = std::move(*Arena::map(kBytes));
  std::unique_ptr<NvmeArena> arena;
  std::unique_ptr<NvmeChannel> channel;
};

constexpr const char *kEngines[] = {"", "spill.uring:ENOSYS"};

} // namespace

TEST(Nvme, BytesComeBack) {
  for (const char *engine : kEngines) {
    Tier tier(engine);
    expectOk(tier.channel->write(0, tier.from.data(), kBytes));
    expectOk(tier.channel->read(0, tier.to.data(), kBytes));
    EXPECT_TRUE(tier.isSame(0, kBytes)) << engine;
    EXPECT_EQ(tier.arena->allocatedBytes(), kBytes);
  }
}

TEST(Nvme, WhatAllRanksNeedIsCountedBeyond64Bits) {
  NvmeOptions options;
  options.folder = testing::TempDir();
  Status status = NvmeArena::check(options, uint64_t(1) << 52, uint64_t(1) << 16);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().number, 676) << render(status.error());
}

TEST(Nvme, WhatWasNeverWrittenIsZero) {
  Tier tier;
  expectOk(tier.channel->read(4096, tier.from.data(), 3 << 20));
  EXPECT_EQ(std::string(tier.from.data(), 3 << 20), std::string(3 << 20, '\0'));
}

TEST(Nvme, AnyBytesInAnyOrderAreAsInMemory) {
  for (const char *engine : kEngines) {
    Tier tier(engine);
    std::memset(tier.from.data(), 0, kBytes);
    std::mt19937_64 random(3);
    for (int i = 0; i < 60; ++i) {
      uint64_t longest = i % 3 == 0 ? 9 << 20 : 10000;
      uint64_t bytes = 1 + random() % longest, offset = random() % (kBytes - bytes);
      if (i % 2 == 0) {
        for (uint64_t at = 0; at < bytes; ++at)
          tier.from.data()[offset + at] = static_cast<char>(random());
        expectOk(tier.channel->writeBytes(offset, tier.from.data() + offset, bytes));
      }
      expectOk(tier.channel->readBytes(offset, tier.to.data() + offset, bytes));
      ASSERT_TRUE(tier.isSame(offset, bytes)) << engine << " " << i;
    }
  }
}

TEST(Nvme, NoMemoryForPartsOfBlocksIsAnError) {
  Tier tier("spill.bounce:ENOMEM");
  for (const Status &status :
       {tier.channel->writeBytes(3, tier.from.data(), 5), tier.channel->readBytes(3, tier.to.data(), 5)}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::budget) << status.error().message;
  }
  expectOk(setFailpoints(""));
  expectOk(tier.channel->writeBytes(3, tier.from.data() + 3, 5));
  expectOk(tier.channel->readBytes(3, tier.to.data() + 3, 5));
  EXPECT_TRUE(tier.isSame(3, 5));
}

TEST(Nvme, TransfersAllocateNothing) {
  Tier tier;
  expectOk(tier.channel->write(0, tier.from.data(), kBytes));
  uint64_t before = test::allocations();
  expectOk(tier.channel->write(0, tier.from.data(), kBytes));
  expectOk(tier.channel->read(0, tier.to.data(), kBytes));
  EXPECT_EQ(test::allocations(), before);
}

TEST(Nvme, EveryPieceSurvivesAnInterruptionAndAShortTransfer) {
  for (const char *engine : kEngines) {
    Tier tier(engine);
    for (const char *fault : {"short", "EINTR", "EAGAIN"})
      for (int n = 1; n < 30; n += 7) {
        std::string at = "@n=" + std::to_string(n) + ":" + fault;
        expectOk(setFailpoints("spill.write" + at + ";spill.read" + at));
        std::memset(tier.to.data(), 0, kBytes);
        expectOk(tier.channel->write(0, tier.from.data(), kBytes));
        expectOk(tier.channel->read(0, tier.to.data(), kBytes));
        ASSERT_TRUE(tier.isSame(0, kBytes)) << engine << at;
      }
  }
}

TEST(Nvme, AFailureInTheMiddleLeavesNothingUnderWay) {
  for (const char *engine : kEngines) {
    Tier tier(engine);
    expectOk(tier.channel->write(0, tier.from.data(), kBytes));
    expectOk(setFailpoints("spill.write@n=20:ENOSPC;spill.read@n=20:flip"));
    Status full = tier.channel->write(0, tier.from.data(), kBytes);
    ASSERT_FALSE(full.ok());
    EXPECT_EQ(full.error().code, Code::io);
    Status flipped = tier.channel->read(0, tier.to.data(), kBytes);
    ASSERT_FALSE(flipped.ok());
    EXPECT_EQ(flipped.error().code, Code::corrupt);
    // The channel is as good as new.
    expectOk(tier.channel->write(0, tier.from.data(), kBytes));
    expectOk(tier.channel->read(0, tier.to.data(), kBytes));
    EXPECT_TRUE(tier.isSame(0, kBytes));
  }
}

/// Transfers of these sizes, one behind the other in the file, as many under way as there may be.
static Status moveAll(Tier &tier, bool isWrite, char *memory, const std::vector<uint64_t> &sizes) {
  std::vector<uint64_t> starts;
  uint64_t end = 0;
  for (uint64_t bytes : sizes) {
    starts.push_back(end);
    end += bytes;
  }
  for (size_t first = 0, begun = 0; first < sizes.size(); ++first) {
    for (; begun < sizes.size() && tier.channel->accepts(isWrite, starts[begun], memory + starts[begun], sizes[begun]);
         ++begun)
      tier.channel->begin(isWrite, starts[begun], memory + starts[begun], sizes[begun]);
    EXPECT_GT(begun, first);
    ZC_RETURN_IF_ERROR(tier.channel->finish());
  }
  return {};
}

TEST(Nvme, SeveralTransfersAreUnderWayAndEndInOrder) {
  std::vector<uint64_t> sizes;
  std::mt19937_64 random(5);
  for (uint64_t left = kBytes; left > 0; left -= sizes.back())
    sizes.push_back(std::min<uint64_t>(left, (1 + random() % (sizes.size() % 5 == 0 ? 900 : 40)) * 4096));
  for (const char *engine : kEngines) {
    Tier tier(engine);
    expectOk(moveAll(tier, true, tier.from.data(), sizes));
    uint64_t before = test::allocations();
    expectOk(moveAll(tier, false, tier.to.data(), sizes));
    EXPECT_LE(test::allocations() - before, 64u); // the test's own vectors
    EXPECT_TRUE(tier.isSame(0, kBytes)) << engine;
    EXPECT_TRUE(tier.channel->isIdle());
    // Each failure is its transfer's, and ends what began behind it.
    for (int n : {1, 5, 20}) {
      expectOk(setFailpoints("spill.read@n=" + std::to_string(n) + ":flip"));
      EXPECT_FALSE(moveAll(tier, false, tier.to.data(), sizes).ok());
      EXPECT_TRUE(tier.channel->isIdle());
      std::memset(tier.to.data(), 0, kBytes);
      expectOk(moveAll(tier, false, tier.to.data(), sizes));
      EXPECT_TRUE(tier.isSame(0, kBytes)) << engine << n;
    }
  }
}

TEST(Nvme, TransfersThatStoreToTheSamePlaceWaitForEachOther) {
  Tier tier;
  char *memory = tier.to.data();
  tier.channel->begin(false, 0, memory, 8192);
  EXPECT_FALSE(tier.channel->accepts(false, 65536, memory + 4096, 8192));
  EXPECT_TRUE(tier.channel->accepts(false, 0, memory + 8192, 8192)); // reads one place twice
  expectOk(tier.channel->finish());
  EXPECT_TRUE(tier.channel->accepts(false, 65536, memory + 4096, 8192));
  tier.channel->begin(true, 8192, tier.from.data(), 8192);
  EXPECT_FALSE(tier.channel->accepts(true, 0, memory, 12288));
  EXPECT_TRUE(tier.channel->accepts(true, 0, tier.from.data(), 8192));
  expectOk(tier.channel->finish());
}

TEST(Nvme, MemoryIsLeftAloneOnceTheEngineHasFailed) {
  for (const char *engine : kEngines) {
    Tier tier(engine);
    expectOk(tier.channel->write(0, tier.from.data(), kBytes));
    expectOk(setFailpoints("spill.engine@n=1:EIO"));
    Status status = tier.channel->read(0, tier.to.data(), kBytes);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().number, 680) << render(status.error());
    std::memset(tier.to.data(), 0x55, kBytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (uint64_t i = 0; i < kBytes; i += 4096)
      ASSERT_EQ(tier.to.data()[i], 0x55) << engine << " byte " << i;
    expectOk(setFailpoints(""));
    EXPECT_EQ(tier.channel->read(0, tier.to.data(), 4096).error().number, 680);
  }
}

TEST(Nvme, BlocksOfTwoWritersAreTakenFromTheNewer) {
  Tier tier;
  expectOk(tier.channel->write(0, tier.from.data(), 8192));
  expectOk(tier.channel->write(4096, tier.from.data(), 4096));
  expectOk(tier.channel->read(0, tier.to.data(), 8192));
  EXPECT_EQ(std::memcmp(tier.to.data() + 4096, tier.from.data(), 4096), 0);
}
