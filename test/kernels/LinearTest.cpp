// A product with a gelu's gradient has the bits of the two kernels that it stands for.
#include "test/kernels/FastTest.h"

namespace zc::test {
namespace {

TEST(Linear, geluGradHasTheBitsOfItsParts) {
  const int64_t m = 37, n = 64, k = 72;
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (bool transLhs : {false, true})
      for (bool transRhs : {false, true})
        for (bool plain : {true, false}) {
          const Value g = random(type, transLhs ? Ints{k, m} : Ints{m, k}, 1, -2, 2),
                      w = random(type, transRhs ? Ints{n, k} : Ints{k, n}, 2, -2, 2),
                      u = random(type, {m, n}, 3, -2, 2), d({type, {m, n}});
          Attributes attributes;
          if (transLhs)
            attributes["trans_lhs"] = kOne;
          if (transRhs)
            attributes["trans_rhs"] = kOne;
          const Value product = must(run({"matmul", {g, w}, {d}, attributes}, plain))[0];
          const Value apart = must(run({"gelu_grad", {product, u}, {d}, {{"tanh", kOne}}}, plain))[0];
          EXPECT_TRUE(must(run({"linear_gelu_grad", {g, w, u}, {d}, attributes}, plain))[0] == apart) << nameOf(type);
        }
}

TEST(Linear, refusesWhatIsNoLayer) {
  const Value g({DType::bf16, {4, 8}}), w({DType::bf16, {8, 16}}), d({DType::bf16, {4, 16}}),
      many({DType::bf16, {2, 4, 8}}), others({DType::bf16, {4, 15}});
  auto number = [](const Call &call) {
    Status status = registry(true).prepare(call.spec()).status();
    return status.ok() ? 0 : status.error().number;
  };
  EXPECT_EQ(number({"linear_gelu_grad", {g, w, d}, {d}}), 0);
  EXPECT_EQ(number({"linear_gelu_grad", {g, w}, {d}}), 703);
  EXPECT_EQ(number({"linear_gelu_grad", {many, w, d}, {d}}), 703);
  EXPECT_EQ(number({"linear_gelu_grad", {g, w, others}, {d}}), 703); // a gelu of another shape
  EXPECT_EQ(number({"linear_gelu_grad", {g, w, others}, {others}}), 703);
}

} // namespace
} // namespace zc::test
