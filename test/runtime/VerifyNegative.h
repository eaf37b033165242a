//===- VerifyNegative.h - plans that violate one constraint ------------------------===//
#pragma once

#include "runtime/plan/Verify.h"
#include "test/runtime/Damage.h"
#include "test/runtime/TestPlan.h"

#include <functional>
#include <gtest/gtest.h>

namespace zc::test {

/// tinyPlan verifies; with `damage` done to it, it violates the constraint that the name begins with.
struct Negative {
  const char *name;
  std::function<void(Plan &)> damage;
};
inline void PrintTo(const Negative &negative, std::ostream *out) { *out << negative.name; }

class VerifyNegative : public testing::TestWithParam<Negative> {};

/// The tests of a file's table are VerifyNegative.IsFound, with the prefix FILE and the names of its rows.
#define ZC_VERIFY_NEGATIVES(FILE, TABLE)                                                                               \
  INSTANTIATE_TEST_SUITE_P(FILE, VerifyNegative, testing::ValuesIn(TABLE),                                             \
                           [](const auto &info) { return std::string(info.param.name); })

/// Far beyond every size, and sums with it wrap.
constexpr uint64_t kHuge = ~uint64_t(0) - 100;

} // namespace zc::test
