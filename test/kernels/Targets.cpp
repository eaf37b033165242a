// ZC_TEST_SIMD=avx2 or baseline in the environment: runs the tests on the code that older CPUs get.
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
    int64_t wanted = std::string(name) == "avx2" ? HWY_AVX2 : HWY_STATIC_TARGET;
    hwy::SetSupportedTargetsForTest(wanted);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    ASSERT_EQ(hwy::SupportedTargets() & wanted, wanted) << "this CPU has no " << name;
  }
};

const auto *registered = testing::AddGlobalTestEnvironment(new Targets);

} // namespace
