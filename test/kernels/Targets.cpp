// ZC_TEST_SIMD=avx2 in the environment: runs the tests on the code that older CPUs get.
#include <cstdlib>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <string>

namespace {

class Targets : public testing::Environment {
public:
  void SetUp() override {
    const char *name = std::getenv("ZC_TEST_SIMD");
    if (!name)
      return;
    ASSERT_EQ(std::string(name), "avx2");
    hwy::SetSupportedTargetsForTest(HWY_AVX2);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    ASSERT_TRUE(hwy::SupportedTargets() & HWY_AVX2) << "this CPU has none";
  }
};

const auto *registered = testing::AddGlobalTestEnvironment(new Targets);

} // namespace
