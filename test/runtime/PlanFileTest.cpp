#include "runtime/plan/PlanFile.h"
#include "base/File.h"
#include "runtime/plan/Verify.h"
#include "test/runtime/TestPlan.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace zc;

namespace {
std::string packed() { return packPlan(test::tinyPlan()).value(); }
Code codeOf(const std::string &bytes) {
  Result<planpb::Plan> plan = readPlan(bytes, "t.plan");
  return plan.ok() ? Code::ok : plan.error().code;
}
} // namespace

TEST(PlanFile, RoundTripsAndIsDeterministic) {
  planpb::Plan plan = test::tinyPlan();
  std::string bytes = packed();
  EXPECT_EQ(bytes, packed());
  Result<planpb::Plan> read = readPlan(bytes, "t.plan");
  ASSERT_TRUE(read.ok()) << render(read.error());
  EXPECT_EQ(read->SerializeAsString(), plan.SerializeAsString());
  EXPECT_EQ(planHash(*read), planHash(plan));
  plan.set_seed(plan.seed() + 1);
  EXPECT_NE(planHash(*read), planHash(plan));
}

TEST(PlanFile, EveryFlippedByteIsFound) {
  const std::string good = packed();
  for (size_t at = 0; at < good.size(); ++at) {
    for (unsigned char mask : {0x01, 0x80, 0xFF}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ mask);
      Code code = codeOf(bad);
      // Magic and version say "not for me" rather than "damaged".
      ASSERT_EQ(code, at < 12 ? Code::mismatch : Code::corrupt) << "byte " << at << " mask " << int(mask);
    }
  }
}

TEST(PlanFile, EveryTruncationIsFound) {
  const std::string good = packed();
  for (size_t size = 0; size < good.size(); ++size)
    ASSERT_EQ(codeOf(good.substr(0, size)), Code::corrupt) << size;
  EXPECT_EQ(codeOf(good + '\0'), Code::corrupt);
}

namespace {
constexpr size_t kEntry = 32, kHeaderHash = kEntry + 40, kMessage = kHeaderHash + 16;
std::string hashOf(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char *>(canonical.digest), 16);
}
/// With hashes that are right again: of the message and of the header.
std::string sealed(std::string bytes) {
  bytes.replace(kEntry + 24, 16, hashOf(std::string_view(bytes).substr(kMessage)));
  bytes.replace(kHeaderHash, 16, hashOf(std::string_view(bytes).substr(0, kHeaderHash)));
  return bytes;
}
} // namespace

/// A writer that is wrong, not a disk: the container's tables, and what is said in them, are looked at as well.
TEST(PlanFile, SectionsBeyondTheFileOrOverEachOtherAreFound) {
  const std::string good = packed();
  ASSERT_EQ(sealed(good), good);
  auto with = [&](size_t at, uint64_t value) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &value, sizeof value);
    return codeOf(sealed(bad));
  };
  for (uint64_t value : {~uint64_t(0), ~uint64_t(0) - kMessage + 1, uint64_t(1) << 63, uint64_t(0), uint64_t(8),
                         uint64_t(good.size())}) {
    EXPECT_EQ(with(kEntry + 8, value), Code::corrupt) << "offset " << value;
    EXPECT_EQ(with(kEntry + 16, value), Code::corrupt) << "size " << value;
  }
  // The same bytes twice.
  std::string twice = good.substr(0, kHeaderHash) + good.substr(kEntry, 40) + good.substr(kHeaderHash);
  twice[24] = 2;
  uint64_t total = twice.size();
  std::memcpy(twice.data() + 16, &total, sizeof total);
  twice.replace(kHeaderHash + 40, 16, hashOf(std::string_view(twice).substr(0, kHeaderHash + 40)));
  EXPECT_EQ(codeOf(twice), Code::corrupt);
}

TEST(PlanFile, EveryFlippedByteUnderARightHashIsReadOrRefused) {
  const std::string good = packed();
  int refused = 0, verified = 0;
  for (size_t at = kMessage; at < good.size(); ++at)
    for (unsigned char mask : {0x01, 0x40, 0x80, 0xFF}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ mask);
      auto plan = readPlan(sealed(bad), "t.plan");
      bool isFine = plan.ok() && verifyPlan(*plan).ok(); // of what it says, not a crash
      ++(isFine ? verified : refused);
    }
  EXPECT_GT(refused, verified) << "names, rates and sizes of tensors that nobody reads may be others";
}

TEST(PlanFile, OtherFilesAndVersionsAreMismatches) {
  EXPECT_EQ(codeOf("ir_version: 8"), Code::mismatch);
  std::string swapped = packed();
  std::reverse(swapped.begin() + 12, swapped.begin() + 16);
  EXPECT_EQ(codeOf(swapped), Code::mismatch);
  planpb::Plan newer = test::tinyPlan();
  newer.set_format(kPlanFormat + 1);
  EXPECT_EQ(codeOf(packPlan(newer).value()), Code::mismatch);
}

/// Whoever has the plan need not know how it was made.
TEST(PlanFile, APlanOfAnotherFormatSaysHowItWasCompiled) {
  planpb::Plan plan = test::tinyPlan();
  plan.set_command("zero-compile /models/gpt2.onnx --world-size 4 --zero-stage 3");
  std::string newer = packPlan(plan).value();
  newer[8] = char(kPlanFormat + 1);
  auto read = readPlan(newer, "new.plan");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::mismatch);
  EXPECT_EQ(read.error().help,
            "compile the model again with this version: zero-compile /models/gpt2.onnx --world-size 4 "
            "--zero-stage 3 -o PLAN");
  for (size_t size = 28; size < newer.size(); size += 7) { // whatever is left of it
    auto cut = readPlan(newer.substr(0, size), "new.plan");
    ASSERT_FALSE(cut.ok());
  }
}

TEST(PlanFile, HowItWasCompiledMakesNoOtherPlan) {
  planpb::Plan plan = test::tinyPlan(), same = plan;
  same.set_command("zero-compile /models/gpt2.onnx");
  EXPECT_EQ(planHash(plan), planHash(same));
  EXPECT_NE(packPlan(plan).value(), packPlan(same).value());
}

/// Plans of the formats before are refused before anything of them is read, and the message says what to do.
TEST(PlanFile, OlderPlansAreToBeCompiledAgain) {
  for (uint32_t version = 1; version < kPlanFormat; ++version) {
    std::string older = packed();
    older[8] = static_cast<char>(version);
    auto plan = readPlan(older, "old.plan");
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(static_cast<int>(plan.error().code), 10);
    EXPECT_EQ(plan.error().message, "plan has format version " + std::to_string(version) +
                                        ", this program reads version " + std::to_string(kPlanFormat));
    EXPECT_EQ(plan.error().help, "compile the model again with this version");
  }
}

TEST(PlanFile, FilesOnDisk) {
  std::string pattern = testing::TempDir() + "/zc-plan-XXXXXX", folder = ::mkdtemp(pattern.data());
  std::string path = folder + "/a.plan";
  ASSERT_TRUE(writePlan(path, test::tinyPlan()).ok());
  EXPECT_EQ(readFile(path, 1 << 20).value(), packed());
  EXPECT_TRUE(readPlan(path).ok());
  EXPECT_EQ(readPlan(folder + "/none.plan").error().code, Code::badInput);
  EXPECT_EQ(readPlan(folder).error().code, Code::badInput);

  // A file-size limit is the unprivileged stand-in for a full disk: the old plan stays, the temporary goes.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old, small;
  ::getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 100;
  ::setrlimit(RLIMIT_FSIZE, &small);
  Status full = writePlan(path, test::tinyPlan(4, 1));
  ::setrlimit(RLIMIT_FSIZE, &old);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Code::io);
  EXPECT_EQ(readFile(path, 1 << 20).value(), packed());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1);
  std::filesystem::remove_all(folder);
}
