// ZC_TEST_SIMD in the environment: runs the tests on the code that older CPUs get, `avx2` or (where the libraries are
// told so as well) `avx512`, which is without AMX. Skipped on a CPU that has no more: there all tests ran on that code.
#include <cstdlib>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <iostream>
#include <string>

namespace {

class Targets : public testing::Environment {
public:
  void SetUp() override {
    const char *given = std::getenv("ZC_TEST_SIMD");
    if (!given)
      return;
    const std::string name = given;
    ASSERT_TRUE(name == "avx2" || name == "avx512") << name;
    if (!(name == "avx2" ? __builtin_cpu_supports("avx512f") : __builtin_cpu_supports("amx-tile"))) {
      std::cout << "this CPU has no more than " << name << ": all tests run on that" << std::endl;
      std::exit(77); // GTest would count what is skipped from here as passed
    }
    if (name != "avx2")
      return;
    hwy::SetSupportedTargetsForTest(HWY_AVX2);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

const auto *registered = testing::AddGlobalTestEnvironment(new Targets);

} // namespace
