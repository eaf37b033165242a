#include "runtime/plan/PlanFile.h"
#include "runtime/base/File.h"
#include "runtime/plan/Verify.h"
#include "test/runtime/TestPlan.h"

#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>

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

TEST(PlanFile, OtherFilesAndVersionsAreMismatches) {
  EXPECT_EQ(codeOf("ir_version: 8"), Code::mismatch);
  std::string swapped = packed();
  std::reverse(swapped.begin() + 12, swapped.begin() + 16);
  EXPECT_EQ(codeOf(swapped), Code::mismatch);
  planpb::Plan newer = test::tinyPlan();
  newer.set_format(kPlanFormat + 1);
  EXPECT_EQ(codeOf(packPlan(newer).value()), Code::mismatch);
}

/// Plans of the formats before are refused before anything of them is read, and the message says what to do.
TEST(PlanFile, OlderPlansAreToBeCompiledAgain) {
  for (char version : {1, 2, 3, 4}) {
    std::string older = packed();
    older[8] = version;
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
