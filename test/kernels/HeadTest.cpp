// linear_cross_entropy: a head and its loss, a chunk of rows at a time.
#include "test/kernels/FastTest.h"

namespace zc::test {
namespace {

TEST(FastHead, matchesThePlainOne) {
  struct Shape {
    int64_t rows, width, classes, chunk;
  };
  for (Shape s : {Shape{1, 1, 1, 1}, Shape{7, 5, 11, 3}, Shape{130, 33, 301, 64}})
    for (bool transposed : {true, false})
      forFastTypes([&](DType type) {
        Value x = random(type, {s.rows, s.width}, 1, -1, 1);
        Value w = random(type, transposed ? Ints{s.classes, s.width} : Ints{s.width, s.classes}, 2, -1, 1);
        Value labels = uniform({DType::i64, {s.rows}}, 3, 0, static_cast<double>(s.classes));
        if (s.rows > 2)
          labels.set(1, -100);
        Attributes attributes = {{"chunk", s.chunk}};
        if (transposed)
          attributes["trans_weight"] = kOne;
        Value loss(TensorType{DType::f32, {}});
        Call forward{"linear_cross_entropy", {x, labels, w}, {loss}, attributes};
        // Logits are rounded to 16 bits where operands are.
        const double tolerance = type == DType::f32 ? 4e-6 : 4e-3;
        expectFastMatches(forward, tolerance);
        Call grad{"linear_cross_entropy_grad",
                  {f32({}, {3}), x, labels, w},
                  {loss, Value(x.type), Value(w.type)},
                  attributes};
        expectFastMatches(grad, tolerance);
        Value bias = random(type, {s.classes}, 4, -1, 1);
        grad.inputs.push_back(bias);
        grad.outputs.push_back(Value(bias.type));
        grad.attributes["sum"] = kOne;
        expectFastMatches(grad, type == DType::f32 ? 2e-5 : 2e-2);
      });
}

// Without the whole of the logits the sums are the same: one chunk is the products and the loss apart.
TEST(FastHead, equalsItsPartsBitForBit) {
  const int64_t rows = 96, width = 40, classes = 300;
  Value x = random(DType::f32, {rows, width}, 1, -1, 1), w = random(DType::f32, {classes, width}, 2, -1, 1);
  Value labels = uniform({DType::i64, {rows}}, 3, 0, classes), grad = f32({}, {1});
  TensorType logits{DType::f32, {rows, classes}}, scalar{DType::f32, {}}, lse{DType::f32, {rows}};
  Value y = (*run({"matmul", {x, w}, {Value(logits)}, {{"trans_rhs", kOne}}}, false))[0];
  std::vector<Value> loss = *run({"cross_entropy", {y, labels}, {Value(scalar), Value(lse)}}, false);
  Value d = (*run({"cross_entropy_grad", {grad, y, labels, loss[1]}, {Value(logits)}}, false))[0];
  Value dx = (*run({"matmul", {d, w}, {Value(x.type)}}, false))[0];
  Value dw = (*run({"matmul", {d, x}, {Value(w.type)}, {{"trans_lhs", kOne}}}, false))[0];
  std::vector<Value> fused = *run({"linear_cross_entropy_grad",
                                   {grad, x, labels, w},
                                   {Value(scalar), Value(x.type), Value(w.type)},
                                   {{"trans_weight", kOne}, {"chunk", rows}}},
                                  false);
  EXPECT_NEAR(fused[0].get(0), loss[0].get(0), 1e-6);
  EXPECT_TRUE(fused[1] == dx);
  EXPECT_TRUE(fused[2] == dw);
}

TEST(FastHead, refusesBadLabels) {
  for (bool plain : {true, false}) {
    Call call{"linear_cross_entropy",
              {f32({2, 1}, {1, 2}), i64({2}, {0, 3}), f32({1, 3}, {1, 2, 3})},
              {Value(TensorType{DType::f32, {}})},
              {{"chunk", kOne}}};
    Result<std::vector<Value>> result = run(call, plain);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().message, "label 3 of kernel 'linear_cross_entropy' is not in [0, 3)");
  }
}

} // namespace
} // namespace zc::test
