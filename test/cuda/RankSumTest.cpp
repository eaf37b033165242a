// The sum over ranks that a GPU's blocks make has the bits of the host's; what launchers refuse.
#include "kernels/cuda/RankSum.h"
#include "kernels/cuda/HostKernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <tuple>

namespace zc::cuda {
namespace {

struct Case {
  DType in, out;
  double scale;
  bool accumulate;
};

/// Work of no kernel, done at once.
struct AtOnce {
  QueueAtOnce queue;
  Launcher<Host> launch{Frame{}, nullptr, queue};
};

class RankSum : public testing::TestWithParam<Case> {};

/// Bytes that are finite numbers of any type.
std::vector<char> numbers(DType type, size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(n * static_cast<size_t>(sizeOf(type)));
  for (size_t i = 0; i < n; ++i) {
    float x = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 97;
    char *to = bytes.data() + i * static_cast<size_t>(sizeOf(type));
    double wide = x;
    int64_t whole = random();
    uint16_t half = type == DType::bf16 ? toBf16(x) : toF16(x);
    const void *from = type == DType::f32   ? static_cast<const void *>(&x)
                       : type == DType::f64 ? static_cast<const void *>(&wide)
                       : type == DType::i64 ? static_cast<const void *>(&whole)
                                            : &half;
    std::memcpy(to, from, static_cast<size_t>(sizeOf(type)));
  }
  return bytes;
}

TEST_P(RankSum, HasTheHostsBits) {
  const Case &test = GetParam();
  for (auto [ranks, elements, skip] : {std::tuple<int, size_t, size_t>{3, 4321, 5},
                                       {3, 4321, 8}, // in packs
                                       {kFewSummed, 50, 8},
                                       {kFewSummed + 1, 50, 5},
                                       {kMaxSummed, 50, 8}}) {
    std::vector<std::vector<char>> parts;
    std::vector<const void *> inputs;
    for (int rank = 0; rank < ranks; ++rank)
      parts.push_back(numbers(test.in, skip + elements, static_cast<unsigned>(rank)));
    for (const std::vector<char> &part : parts)
      inputs.push_back(part.data());
    std::vector<char> expected = numbers(test.out, elements, 9), got = expected;
    OrderedSum sum{inputs.data(), ranks,    skip,       expected.data(), elements,
                   test.in,       test.out, test.scale, test.accumulate};
    orderedSum(sum);
    sum.output = got.data();
    ASSERT_TRUE(hostOrderedSum(sum, AtOnce().launch));
    EXPECT_EQ(got, expected) << ranks << " ranks, " << skip << " skipped";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RankSum,
    testing::Values(Case{DType::f32, DType::f32, 1, false}, Case{DType::f32, DType::f32, 0.3, true},
                    Case{DType::bf16, DType::bf16, 0.25, true}, Case{DType::bf16, DType::f32, 0.7, true},
                    Case{DType::f16, DType::f16, 0.7, true}, Case{DType::f16, DType::f32, 1, false},
                    Case{DType::f64, DType::f64, 0.3, true}, Case{DType::i64, DType::i64, 1, true}));

TEST(RankSum, RefusesWhatIsNotSummed) {
  OrderedSum sum;
  sum.inputType = sum.outputType = DType::i32;
  EXPECT_FALSE(hostOrderedSum(sum, AtOnce().launch));
  sum.inputType = sum.outputType = DType::f32;
  sum.ranks = kMaxSummed + 1;
  EXPECT_FALSE(hostOrderedSum(sum, AtOnce().launch));
}

TEST(RepeatRow, WritesItIntoAllRows) {
  for (size_t n : {3, 4}) { // words of two bytes and of eight
    std::vector<uint16_t> row = {1, 2, 3, 4}, to(n * 1000, 7);
    hostRepeatRow(to.data(), row.data(), 1000, static_cast<int64_t>(2 * n), AtOnce().launch);
    for (size_t i = 0; i < to.size(); ++i)
      ASSERT_EQ(to[i], row[i % n]) << i;
  }
}

/// What a grid does not have is refused before it is launched, and what comes after is told of it.
TEST(Launch, KeepsTheFirstRefusal) {
  struct Full : QueueAtOnce {
    LaunchStatus zero(void *, size_t) override { return kNoLaunchMemory; }
    LaunchStatus copy(void *, const void *, size_t) override { return 700; }
  } queue;
  char byte = 0, other = 0;
  auto noBody = [](auto &, int64_t, const Frame &) { FAIL(); };
  const Launcher<Host> launch(Frame{}, nullptr, queue);
  launch.blocks<32>(0, noBody);
  launch.zero(&byte, 0);
  launch.copy(&byte, &byte, 1);
  EXPECT_TRUE(launch.statusOf("small").ok());
  launch.zero(&byte, 1);
  launch.copy(&other, &byte, 1);
  EXPECT_EQ(launch.status(), kNoLaunchMemory);
  EXPECT_EQ(launch.statusOf("full").error().code, Code::budget);
  const Launcher<Host> large(Frame{}, nullptr, queue);
  large.blocks<32>(int64_t(1) << 31, noBody);
  EXPECT_EQ(large.status(), kInvalidGrid);
  EXPECT_EQ(large.statusOf("large").error().code, Code::internal);
}

} // namespace
} // namespace zc::cuda
