#include "kernels/OrderedSum.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace zc;

TEST(Sums, Fp32IsSummedInRankOrder) {
  // 1e8 + 1 - 1e8 in this order loses the 1; in another it would not.
  std::vector<float> a{1e8f, 1}, b{1, 1e8f}, c{-1e8f, -1e8f}, out{5, 5};
  const void *inputs[] = {a.data(), b.data(), c.data()};
  OrderedSum sum{inputs, 3, 0, out.data(), 2, DType::f32, DType::f32, 0.5, false};
  orderedSum(sum);
  EXPECT_EQ(out, (std::vector<float>{0, 0}));
  sum.accumulate = true;
  out = {5, 6};
  orderedSum(sum);
  EXPECT_EQ(out, (std::vector<float>{5, 6}));
  a[0] = 3, b[0] = 4, c[0] = 5;
  orderedSum(sum);
  EXPECT_EQ(out[0], 11);
}

TEST(Sums, Bf16IsRoundedOnce) {
  // 1 + 2^-8 + 2^-8: rounding after each addition would stay at 1.
  std::vector<uint16_t> one{toBf16(1)}, tiny{toBf16(std::ldexp(1.0f, -8))}, out{0};
  const void *inputs[] = {one.data(), tiny.data(), tiny.data()};
  orderedSum({inputs, 3, 0, out.data(), 1, DType::bf16, DType::bf16, 1, false});
  EXPECT_EQ(fromBf16(out[0]), 1 + std::ldexp(1.0f, -7));
  float wide = 10;
  orderedSum({inputs, 2, 0, &wide, 1, DType::bf16, DType::f32, 1, true});
  EXPECT_EQ(wide, 11 + std::ldexp(1.0f, -8));
}

TEST(Sums, F16OverflowsWhenItIsRounded) {
  // The sum of two is beyond f16, the mean is not; and an infinity stays one.
  std::vector<uint16_t> a{toF16(60000), toF16(60000), toF16(INFINITY)}, b{toF16(50016), toF16(1), toF16(1)};
  std::vector<uint16_t> out(3);
  const void *inputs[] = {a.data(), b.data()};
  orderedSum({inputs, 2, 0, out.data(), 3, DType::f16, DType::f16, 0.5, false});
  EXPECT_EQ(out, (std::vector<uint16_t>{toF16(55008), toF16(30000.5f), toF16(INFINITY)}));
  orderedSum({inputs, 2, 0, out.data(), 1, DType::f16, DType::f16, 1, false});
  EXPECT_EQ(out[0], toF16(INFINITY));
  float wide = 1;
  orderedSum({inputs, 2, 0, &wide, 1, DType::f16, DType::f32, 1, true});
  EXPECT_EQ(wide, fromF16(a[0]) + fromF16(b[0]) + 1);
}

TEST(Sums, AccumulatingRoundsTheSumFirst) {
  // The sum 1 + 2^-9 rounds to 1 in bf16; unrounded, 256 + 1 + 2^-9 would round up to 258.
  std::vector<uint16_t> one{toBf16(1)}, tiny{toBf16(std::ldexp(1.0f, -9))}, out{toBf16(256)};
  const void *inputs[] = {one.data(), tiny.data()};
  orderedSum({inputs, 2, 0, out.data(), 1, DType::bf16, DType::bf16, 1, true});
  EXPECT_EQ(fromBf16(out[0]), 256);
  // In fp32 the product is rounded before it is added: a fused multiply-add would leave 2^-46.
  float a = 1 + std::ldexp(1.0f, -23), sum = -(1 + std::ldexp(1.0f, -22));
  const void *exact[] = {&a};
  orderedSum({exact, 1, 0, &sum, 1, DType::f32, DType::f32, double(a), true});
  EXPECT_EQ(sum, 0);
}

/// Of all numbers of 16 bits, and of fp32 in odd lengths, by vectors as element by element.
TEST(Sums, VectorsHaveThePlainBits) {
  constexpr uint64_t n = 65536 + 5, skip = 3;
  std::vector<std::vector<uint32_t>> inputs(4, std::vector<uint32_t>(n + skip));
  std::mt19937 draw(7);
  for (std::vector<uint32_t> &input : inputs)
    for (uint32_t &bits : input)
      bits = draw();
  for (auto [in, out] :
       {std::pair(DType::f32, DType::f32), std::pair(DType::bf16, DType::bf16), std::pair(DType::bf16, DType::f32),
        std::pair(DType::f16, DType::f16), std::pair(DType::f16, DType::f32)}) {
    if (in != DType::f32)
      for (uint64_t i = 0; i < n + skip; ++i)
        reinterpret_cast<uint16_t *>(inputs[0].data())[i] = static_cast<uint16_t>(i);
    for (int ranks : {1, 2, 4})
      for (double scale : {1.0, 0.375})
        for (bool accumulate : {false, true}) {
          const void *all[] = {inputs[0].data(), inputs[1].data(), inputs[2].data(), inputs[3].data()};
          std::vector<uint32_t> plain = inputs[3], fast = plain;
          OrderedSum sum{all, ranks, skip, plain.data(), n, in, out, scale, accumulate};
          plainOrderedSum(sum);
          sum.output = fast.data();
          if (!orderedSumByVectors(sum))
            GTEST_SKIP() << "a CPU without AVX2";
          // Where two different NaN are added, which one stays is the compiler's choice of operands.
          auto isNan = [out = out](const void *at, uint64_t i) {
            return std::isnan(out == DType::f32    ? static_cast<const float *>(at)[i]
                              : out == DType::bf16 ? fromBf16(static_cast<const uint16_t *>(at)[i])
                                                   : fromF16(static_cast<const uint16_t *>(at)[i]));
          };
          const auto size = static_cast<uint64_t>(sizeOf(out));
          for (uint64_t i = 0; i < n; ++i) {
            const char *a = reinterpret_cast<const char *>(plain.data()) + i * size,
                       *b = reinterpret_cast<const char *>(fast.data()) + i * size;
            ASSERT_TRUE(std::memcmp(a, b, size) == 0 || (isNan(plain.data(), i) && isNan(fast.data(), i)))
                << nameOf(in) << " to " << nameOf(out) << ", " << ranks << " ranks, scale " << scale << ", element "
                << i;
          }
        }
  }
}

TEST(Sums, IntegersWrap) {
  std::vector<int64_t> a{INT64_MAX}, b{1}, out{0};
  const void *inputs[] = {a.data(), b.data()};
  orderedSum({inputs, 2, 0, out.data(), 1, DType::i64, DType::i64, 1, false});
  EXPECT_EQ(out[0], INT64_MIN);
}

TEST(Sums, BlocksCoverEveryElement) {
  for (uint64_t n : {1023, 1024, 1025, 5000}) {
    std::vector<double> a(n + 7), b(n + 7), out(n);
    for (uint64_t i = 0; i < n + 7; ++i)
      a[i] = static_cast<double>(i), b[i] = 0.5;
    const void *inputs[] = {a.data(), b.data()};
    orderedSum({inputs, 2, 7, out.data(), n, DType::f64, DType::f64, 2, false});
    for (uint64_t i = 0; i < n; ++i)
      ASSERT_EQ(out[i], 2 * static_cast<double>(i + 7) + 1);
  }
}

TEST(Sums, OnlySomeTypesAreSummed) {
  EXPECT_TRUE(isSummable(DType::bf16, DType::f32));
  EXPECT_FALSE(isSummable(DType::f32, DType::bf16));
  EXPECT_FALSE(isSummable(DType::i32, DType::i32));
}
