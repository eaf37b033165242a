// Each fast element-wise kernel against its plain version, and dropout.
#include "test/kernels/FastTest.h"

namespace zc::test {
namespace {

const std::vector<Ints> kShapes = {{1}, {0}, {3, 17}, {100, 129}, {2, 5000}};

TEST(Fast, functionsOfOneTensor) {
  for (const char *name : {"gelu", "silu", "exp", "tanh", "sigmoid", "relu", "neg", "sqrt", "reciprocal"})
    for (const Ints &shape : kShapes)
      forFastTypes([&](DType type) {
        bool positive = std::string(name) == "sqrt" || std::string(name) == "reciprocal";
        Call call{name, {random(type, shape, 1, positive ? 0.1 : -8, 8)}, {Value({type, shape})}};
        expectFastMatches(call, 3e-7);
        call.attributes["tanh"] = kOne; // gelu's other form
        expectFastMatches(call, 3e-7);
      });
}

/// Relative errors in the tails, where an absolute bound would see nothing.
TEST(Fast, functionsAreAccurateInTheTails) {
  struct Row {
    const char *name;
    bool tanh;
    double low, high, bound;
  };
  for (const Row &row :
       {Row{"exp", false, -85.9, 88.7, 3e-7}, Row{"tanh", false, -1, 1, 4e-7}, Row{"sigmoid", false, -80, 80, 4e-7},
        Row{"gelu", false, -5, 5, 2e-6}, Row{"gelu", true, -6, 6, 6e-6}, Row{"silu", false, -80, 80, 4e-7}}) {
    SCOPED_TRACE(row.name);
    Value x = uniform({DType::f32, {20000}}, 5, row.low, row.high), exact({DType::f64, {20000}});
    for (size_t i = 0; i < x.size(); ++i)
      exact.set(i, x.get(i));
    Attributes attributes;
    if (row.tanh)
      attributes["tanh"] = kOne;
    auto fast = run({row.name, {x}, {Value(x.type)}, attributes}, false),
         plain = run({row.name, {exact}, {Value(exact.type)}, attributes});
    ASSERT_TRUE(fast.ok() && plain.ok());
    for (size_t i = 0; i < x.size(); ++i) {
      double y = (*plain)[0].get(i);
      ASSERT_NEAR((*fast)[0].get(i), y, row.bound * std::fabs(y) + 1e-37) << "at " << x.get(i);
    }
  }
}

TEST(Fast, functionsOfInfinityAndNan) {
  Value x = f32({7}, {kInfinity, -kInfinity, std::nan(""), -1000, 0, 0, 0});
  for (size_t i = 0; i < 3; ++i) { // NaN as no arithmetic makes it
    constexpr uint32_t bits[] = {0x7fc00001, 0xffcd0f8b, 0x7fc0007f};
    std::memcpy(static_cast<char *>(x.data()) + 4 * (4 + i), &bits[i], 4);
    expectFastMatches({"softmax", {x}, {Value(x.type)}, {{"axis", int64_t{0}}}}, 0);
  }
  for (const char *name : {"exp", "tanh", "sigmoid", "relu", "silu", "gelu"}) {
    SCOPED_TRACE(name);
    auto plain = run({name, {x}, {Value(x.type)}}), fast = run({name, {x}, {Value(x.type)}}, false);
    ASSERT_TRUE(plain.ok() && fast.ok());
    expectNear((*fast)[0], elements((*plain)[0]), 0);
  }
}

TEST(Fast, gradientsOfActivations) {
  for (const char *name : {"gelu_grad", "silu_grad"})
    for (const Ints &shape : kShapes)
      forFastTypes([&](DType type) {
        Call call{name, {random(type, shape, 1), random(type, shape, 2, -6, 6)}, {Value({type, shape})}};
        expectFastMatches(call, 2e-6); // the plain one cancels in 1 - tanh^2
        call.attributes["tanh"] = kOne;
        expectFastMatches(call, 2e-6); // the plain one cancels in 1 - tanh^2
      });
}

TEST(Fast, binaryBroadcasts) {
  struct Row {
    Ints a, b, result;
  };
  for (const Row &row : {Row{{5, 33}, {5, 33}, {5, 33}}, Row{{200, 129}, {129}, {200, 129}},
                         Row{{200, 129}, {}, {200, 129}}, Row{{4, 1, 33}, {7, 1}, {4, 7, 33}},
                         Row{{1}, {100, 100}, {100, 100}}, Row{{2, 0}, {1, 1}, {2, 0}}, Row{{3, 1}, {1, 65}, {3, 65}}})
    for (const char *name : {"add", "sub", "mul", "div", "min", "max"})
      forFastTypes([&](DType type) {
        expectFastMatches({name, {random(type, row.a, 1), random(type, row.b, 2, 1, 2)}, {Value({type, row.result})}},
                          1e-7);
        // Of few values, so that some are equal.
        for (const char *comparison : {"equal", "less", "less_equal"}) {
          Value a = random(type, row.a, 1), b = random(type, row.b, 2);
          for (Value *value : {&a, &b})
            for (size_t i = 0, n = static_cast<size_t>(value->type.numElements()); i < n; ++i)
              value->set(i, static_cast<double>((i * 7 + (value == &b)) % 3));
          expectFastMatches({comparison, {a, b}, {Value({DType::boolean, row.result})}}, 0);
        }
      });
}

/// What attention's masks are made of: positions compared, bools combined.
TEST(Fast, comparisonsOfPositionsAndWhatCombinesThem) {
  struct Row {
    Ints a, b, result;
  };
  auto fill = [](DType type, const Ints &dims, int64_t shift) {
    Value value({type, dims});
    for (size_t i = 0, n = static_cast<size_t>(value.type.numElements()); i < n; ++i)
      value.set(i, static_cast<double>((static_cast<int64_t>(i) * 7 + shift) % (type == DType::boolean ? 2 : 5) -
                                       (type == DType::boolean ? 0 : 2)));
    return value;
  };
  for (const Row &row :
       {Row{{5, 133}, {5, 133}, {5, 133}}, Row{{1, 300}, {200, 1}, {200, 300}}, Row{{200, 1}, {1, 300}, {200, 300}},
        Row{{2, 1, 1, 65}, {1, 1, 70, 65}, {2, 1, 70, 65}}, Row{{}, {9001}, {9001}}, Row{{2, 0}, {1, 1}, {2, 0}}}) {
    for (const char *name : {"equal", "less", "less_equal"})
      expectFastMatches(
          {name, {fill(DType::i64, row.a, 1), fill(DType::i64, row.b, 3)}, {Value({DType::boolean, row.result})}}, 0);
    for (const char *name : {"and", "or", "xor"})
      expectFastMatches({name,
                         {fill(DType::boolean, row.a, 1), fill(DType::boolean, row.b, 2)},
                         {Value({DType::boolean, row.result})}},
                        0);
    expectFastMatches({"not", {fill(DType::boolean, row.result, 1)}, {Value({DType::boolean, row.result})}}, 0);
  }
  Value large = make(DType::i64, {3}, {0, 0, 0}), other = large;
  auto *x = static_cast<int64_t *>(large.data()), *y = static_cast<int64_t *>(other.data());
  x[0] = std::numeric_limits<int64_t>::max(), y[0] = std::numeric_limits<int64_t>::min();
  x[1] = int64_t(1) << 53, y[1] = x[1] + 1; // one number as doubles
  for (const char *name : {"equal", "less", "less_equal"})
    expectFastMatches({name, {large, other}, {Value({DType::boolean, {3}})}}, 0);
}

/// The mask's bytes and the numbers they leave, whatever vectors draw them.
TEST(Fast, dropoutHasThePlainBits) {
  for (int64_t n : {0, 1, 3, 63, 64, 65, 4095, 4097, 20001})
    for (double ratio : {0.0, 0.1, 0.5, 1.0})
      forFastTypes([&](DType type) {
        Value x = random(type, {n}, 1, -3, 3);
        if (n > 40) {
          x.set(3, std::nan(""));
          x.set(40, kInfinity);
        }
        Call call{"dropout", {x}, {Value(x.type), Value({DType::boolean, {n}})}, {{"ratio", ratio}, {"id", int64_t{3}}},
                  1,         {}};
        call.seed = 5;
        call.context.step = 7;
        auto plain = run(call, true);
        ASSERT_TRUE(plain.ok());
        for (int threads : {1, 3}) {
          call.threads = threads;
          auto fast = run(call, false);
          ASSERT_TRUE(fast.ok());
          for (size_t i : {0, 1})
            EXPECT_TRUE((*fast)[i] == (*plain)[i]) << "output " << i << " of " << n << " elements, ratio " << ratio;
        }
        Call mask{"dropout_mask", {}, {call.outputs[1]}, call.attributes, 3, call.context};
        mask.seed = call.seed;
        EXPECT_TRUE(must(run(mask, false))[0] == (*plain)[1]) << n;
        Call back{"dropout_grad", {x, (*plain)[1]}, {Value(x.type)}, {{"ratio", ratio}}};
        if (ratio < 1) {
          EXPECT_TRUE(must(run(back, false))[0] == must(run(back, true))[0]) << n;
        }
      });
}

TEST(Fast, smallestAndLargestOfSpecialNumbers) {
  Value a = random(DType::f32, {1001}, 1), b = random(DType::f32, {1001}, 2);
  size_t at = 3;
  for (double special : {std::nan(""), kInfinity, -kInfinity, 0.0, -0.0})
    for (double other : {std::nan(""), kInfinity, 0.0, -0.0, 1.0}) {
      a.set(at, special);
      b.set(at, other);
      at += 39; // in vectors and in the tail
    }
  for (const char *name : {"equal", "less", "less_equal"})
    expectFastMatches({name, {a, b}, {Value({DType::boolean, {1001}})}}, 0);
  for (const char *name : {"min", "max"}) {
    auto plain = run({name, {a, b}, {Value(a.type)}}), fast = run({name, {a, b}, {Value(a.type)}}, false);
    ASSERT_TRUE(plain.ok() && fast.ok());
    for (size_t i = 0; i < 1001; ++i) {
      double x = elements((*plain)[0])[i], y = elements((*fast)[0])[i];
      EXPECT_TRUE((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y))) << name << i;
    }
  }
}

TEST(Fast, selectBroadcasts) {
  struct Row {
    Ints c, a, b, result;
  };
  for (const Row &row : {Row{{5, 33}, {5, 33}, {5, 33}, {5, 33}}, Row{{200, 129}, {200, 129}, {}, {200, 129}},
                         Row{{4, 1, 33}, {7, 1}, {4, 7, 1}, {4, 7, 33}}, Row{{1}, {1}, {100, 100}, {100, 100}},
                         Row{{2, 0}, {1, 1}, {2, 0}, {2, 0}}, Row{{}, {}, {}, {}}})
    forFastTypes([&](DType type) {
      Value condition(TensorType{DType::boolean, row.c});
      for (size_t i = 0, n = static_cast<size_t>(condition.type.numElements()); i < n; ++i)
        condition.set(i, static_cast<double>(i * 7 % 3 == 0));
      expectFastMatches(
          {"select", {condition, random(type, row.a, 1), random(type, row.b, 2)}, {Value({type, row.result})}}, 0);
    });
}

TEST(Fast, castRoundsToNearestEven) {
  Value x = random(DType::f32, {5001}, 1, -1e5, 1e5);
  size_t at = 40; // in vectors and in the tail
  for (double special :
       {std::nan(""), kInfinity, 1.00390625, 1.01171875, 3.4e38, 1e-40, 2e-8, -4.5e-8, 3.1e-5, 65519.0, -65520.0}) {
    x.set(at++, special);
    x.set(at + 4950, special);
  }
  for (DType type : {DType::bf16, DType::f16}) {
    expectFastMatches({"cast", {x}, {Value({type, {5001}})}}, -roundingOf(type)); // no error at all
    expectFastMatches({"cast", {random(type, {77}, 1)}, {Value({DType::f32, {77}})}}, 0);
  }
}

} // namespace
} // namespace zc::test
