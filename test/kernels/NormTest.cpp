// Norm accumulators: right, and the same whatever was summed first.
#include "kernels/formula/NormSum.h"
#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

const Attributes kFirst = {{"first", int64_t{1}}};

Value accumulator() { return Value({DType::i64, {24}}); }

/// The accumulator after parts of `x` in this order of cuts.
Value accumulate(const Value &x, const std::vector<std::pair<int64_t, int64_t>> &parts, bool plain, int threads) {
  Value acc = accumulator();
  for (size_t p = 0; p < parts.size(); ++p) {
    auto [begin, end] = parts[p];
    Value part({x.type.dtype, {end - begin}}, p % 5);
    for (int64_t i = begin; i < end; ++i)
      part.set(static_cast<size_t>(i - begin), x.get(static_cast<size_t>(i)));
    auto outputs = run({"norm_partial", {part}, {acc}, p == 0 ? kFirst : Attributes{}, threads}, plain);
    EXPECT_TRUE(outputs.ok());
    acc = (*outputs)[0];
  }
  return acc;
}

TEST(Norm, sumEqualsLongDouble) {
  for (double scale : {1.0, 1e-20, 1e18}) {
    Value x = uniform({DType::f32, {64 * 500}}, 1, -scale, scale);
    long double sum = 0;
    for (size_t i = 0; i < x.size(); ++i)
      sum += static_cast<long double>(x.get(i)) * x.get(i);
    Value acc = accumulate(x, {{0, 64 * 500}}, true, 1);
    double value = formula::normValue(static_cast<const int64_t *>(acc.data()));
    EXPECT_NEAR(value / static_cast<double>(sum), 1, 1e-14);
  }
}

TEST(Norm, cutsThreadsAndVersionsDoNotMatter) {
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    int64_t n = 64 * 400;
    Value x = uniform({type, {n}}, 1, -1, 1);
    for (size_t i = 0; i < x.size(); i += 97)
      x.set(i, x.get(i) * 1e-12);
    // Whole blocks of nothing, of the smallest numbers (whose squares lose bits) and of the largest.
    for (size_t i = 0; i < 64 * 40; ++i)
      x.set(i, x.get(i) * (i < 64 * 10 ? 0 : i < 64 * 20 ? 1e-44 : i < 64 * 30 ? 3e-40 : 3e38));
    Value whole = accumulate(x, {{0, n}}, true, 1);
    EXPECT_TRUE(accumulate(x, {{0, n}}, false, 2) == whole);
    EXPECT_TRUE(accumulate(x, {{0, n}}, false, 3) == whole);
    EXPECT_TRUE(accumulate(x, {{64 * 300, n}, {0, 64}, {64, 64 * 300}}, false, 2) == whole);
    EXPECT_TRUE(accumulate(x, {{64, 64 * 7}, {64 * 7, n}, {0, 64}}, true, 1) == whole);
    // Sums of ranks' accumulators finish alike in any order.
    Value a = accumulate(x, {{0, 64 * 77}}, false, 1), b = accumulate(x, {{64 * 77, n}}, false, 1), sum = accumulator();
    for (size_t i = 0; i < 24; ++i)
      static_cast<int64_t *>(sum.data())[i] =
          static_cast<const int64_t *>(a.data())[i] + static_cast<const int64_t *>(b.data())[i];
    Value scalar({DType::f32, {}});
    auto one = run({"norm_finish", {whole}, {scalar, scalar}}), two = run({"norm_finish", {sum}, {scalar, scalar}});
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_TRUE((*one)[0] == (*two)[0]);
  }
}

/// A GPU's blocks have a window over limbs that their first values choose: blocks of nothing, of what lies at its
/// borders and beyond, and of the least and the largest, before and after each other.
TEST(Norm, valuesOfAnySizeAreTheSameInEveryOrder) {
  const int64_t blocks = 1100;
  std::vector<double> sizes = {0, 1};
  for (int e = -149; e <= 127; e += 6)
    sizes.push_back(std::ldexp(1.5, e));
  for (size_t begin : {size_t{0}, size_t{1}, size_t{20}, sizes.size() - 1}) {
    Value x({DType::f32, {64 * blocks}});
    for (size_t i = 0; i < x.size(); ++i) // runs of equal sizes, and single blocks among them
      x.set(i, sizes[(begin + i / 64 / 90 + (i / 64 % 37 == 5 ? i / 64 : 0)) % sizes.size()]);
    const Value whole = accumulate(x, {{0, 64 * blocks}}, true, 1);
    EXPECT_TRUE(accumulate(x, {{64 * 555, 64 * blocks}, {0, 64 * 555}}, true, 1) == whole) << begin;
    EXPECT_TRUE(accumulate(x, {{0, 64 * blocks}}, false, 2) == whole) << begin;
  }
}

TEST(Norm, windowsHaveTheAccumulatorsDigits) {
  for (double size = 1.1e-97; size < 1e114; size *= 3.7e5) {
    const int first = formula::NormWindow::firstFor(size);
    formula::NormWindow window{};
    int64_t limbs[formula::kNormLimbs] = {};
    for (double factor : {0x1p-64, 1.0, 0x1p32})
      EXPECT_TRUE(size < 1e-60 || size > 1e80 || formula::NormWindow::takes(first, size * factor)) << size;
    for (double value = size * 0x1p-70; value < size * 0x1p40; value *= 1.37)
      if (formula::NormWindow::takes(first, value)) {
        window.add(first, value);
        formula::addToNorm(limbs, value);
      }
    for (int k = 0; k < formula::NormWindow::kLimbs; ++k) {
      EXPECT_EQ(limbs[first + k], window.limbs[k]) << size;
      limbs[first + k] = 0;
    }
    for (int64_t limb : limbs)
      EXPECT_EQ(limb, 0) << size;
  }
  for (double value : {std::nan(""), std::numeric_limits<double>::infinity(), 0x1p380})
    for (int first : {0, 16})
      EXPECT_FALSE(formula::NormWindow::takes(first, value));
  EXPECT_TRUE(formula::NormWindow::takes(7, 0));
}

TEST(Norm, finishClipsAsTorch) {
  Value x = f32({64}, std::vector<double>(64, 0.5)), scalar({DType::f32, {}}); // norm 4
  Value acc = accumulate(x, {{0, 64}}, true, 1);
  expectOutputs({"norm_finish", {acc}, {scalar, scalar}}, {{4}, {1}});
  expectOutputs({"norm_finish", {acc}, {scalar, scalar}, {{"max_norm", 1.0}}}, {{4}, {1 / (4 + 1e-6)}}, 1e-7);
  expectOutputs({"norm_finish", {acc}, {scalar, scalar}, {{"max_norm", 100.0}}}, {{4}, {1}});
  // The sum of two losses' weights, their mean 1/2 or 0: gradients are numerators.
  Value half = f64({1}, {1}), none = f64({1}, {0});
  expectOutputs({"norm_finish", {acc, half}, {scalar, scalar}, {{"terms", int64_t(2)}}}, {{8}, {2}});
  expectOutputs({"norm_finish", {acc, half}, {scalar, scalar}, {{"terms", int64_t(2)}, {"max_norm", 1.0}}},
                {{8}, {2 / (8 + 1e-6)}}, 1e-7);
  expectOutputs({"norm_finish", {acc, none}, {scalar, scalar}, {{"terms", int64_t(2)}}}, {{4}, {0}});
  // A loss times 8 gives gradients of norm 4; the update sees an eighth of them.
  Call scaled{"norm_finish", {acc}, {scalar, scalar}, {{"scaled", int64_t(1)}, {"max_norm", 0.25}}};
  scaled.context.lossScale = 8;
  expectOutputs(scaled, {{0.5}, {0.25 / (0.5 + 1e-6) / 8}}, 1e-7);
  scaled.attributes.erase("max_norm");
  expectOutputs(scaled, {{0.5}, {0.125}});
  scaled.inputs.push_back(half);
  scaled.attributes["terms"] = int64_t(2);
  expectOutputs(scaled, {{1}, {0.25}});
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    x.set(17, bad);
    Value wrong = accumulate(x, {{0, 64}}, false, 1);
    for (const Attributes &attributes : {Attributes{{"max_norm", 1.0}}, Attributes{}})
      expectOutputs({"norm_finish", {wrong}, {scalar, scalar}, attributes}, {{std::nan("")}, {std::nan("")}});
  }
}

TEST(AccumulateGradient, addsInItsTypeAndRestarts) {
  for (DType type : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    Value part({type, {2}}), sum({type, {2}});
    part.set(0, 1), part.set(1, 3);
    sum.set(0, 256), sum.set(1, -3);
    // 257 is between two bf16 numbers and goes to the even one.
    Call call{"accumulate_gradient", {part}, {sum}, {}, 1, {1, 0, 0}};
    expectOutputs(call, {{type == DType::bf16 ? 256.0 : 257.0, 0}});
    call.attributes = {{"restart", int64_t(1)}};
    expectOutputs(call, {{1, 3}});
    call.context.micro = 1;
    expectOutputs(call, {{type == DType::bf16 ? 256.0 : 257.0, 0}});
  }
}

TEST(AccumulateGradient, fastIsPlain) {
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (int64_t n : {1, 63, 64 * 300 + 5}) {
      TensorType shape{type, {n}};
      Call call{"accumulate_gradient", {uniform(shape, 1, -1, 1)}, {uniform(shape, 2, -1, 1)}, {}, 2, {1, 1, 0}};
      auto plain = run(call, true), fast = run(call, false);
      ASSERT_TRUE(plain.ok() && fast.ok());
      EXPECT_TRUE((*plain)[0] == (*fast)[0]) << n;
    }
}

} // namespace
} // namespace zc::test
