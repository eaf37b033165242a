// linear_cross_entropy: a head and its loss, a chunk of rows at a time.
#include "kernels/shapes/HeadShapes.h"
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

// Logits that a cap has changed by a third; which of them do not count stays so.
TEST(FastHead, capsLogits) {
  for (double cap : {0.5, 30.0, 1e8})
    for (bool sums : {true, false})
      forFastTypes([&](DType type) {
        const Value x = random(type, {40, 12}, 1, -1, 1), w = random(type, {12, 101}, 2, -1, 1);
        Value labels = uniform({DType::i32, {40}}, 3, 0, 101);
        for (int64_t r : {1, 20, 39})
          labels.set(r, -100);
        Attributes attributes{{"cap", cap}, {"chunk", int64_t{16}}};
        if (sums)
          attributes["sum"] = kOne;
        const Value loss({DType::f32, {}});
        const double tolerance = type == DType::f32 ? 2e-5 : 2e-2;
        expectFastMatches({"linear_cross_entropy", {x, labels, w}, {loss}, attributes}, tolerance);
        const Value bias = random(type, {101}, 4, -1, 1);
        expectFastMatches({"linear_cross_entropy_grad",
                           {f32({}, {3}), x, labels, w, bias},
                           {loss, Value(x.type), Value(w.type), Value(bias.type)},
                           attributes},
                          tolerance);
        for (int64_t r = 3; r < 40; ++r)
          labels.set(r, -100); // rows are gathered
        expectFastMatches({"linear_cross_entropy_grad",
                           {f32({}, {3}), x, labels, w},
                           {loss, Value(x.type), Value(w.type)},
                           attributes},
                          tolerance);
      });
}

// The plain head's cap is tanh between its layer and its loss.
TEST(FastHead, capsAsItsPartsDo) {
  const double cap = 2;
  const Value x = random(DType::f64, {9, 6}, 1, -1, 1), w = random(DType::f64, {11, 6}, 2, -1, 1);
  const Value labels = uniform({DType::i64, {9}}, 3, 0, 11), scale = random(DType::f64, {}, 4, cap, cap);
  const TensorType logits{DType::f64, {9, 11}}, scalar{DType::f64, {}};
  Value y = must(run({"matmul", {x, w}, {Value(logits)}, {{"trans_rhs", kOne}}}))[0];
  y = must(run({"div", {y, scale}, {Value(logits)}}))[0];
  y = must(run({"tanh", {y}, {Value(logits)}}))[0];
  y = must(run({"mul", {y, scale}, {Value(logits)}}))[0];
  const Value loss = must(run({"cross_entropy", {y, labels}, {Value(scalar), Value({DType::f64, {9}})}}))[0];
  Call head{"linear_cross_entropy",
            {x, labels, w},
            {Value(scalar)},
            {{"trans_weight", kOne}, {"chunk", int64_t{4}}, {"cap", cap}}};
  expectOutputs(head, {{loss.get(0)}}, 1e-12);
  for (double none : {0.0, -1.0, double(INFINITY), kNan}) {
    head.attributes["cap"] = none;
    EXPECT_FALSE(run(head).ok()) << none;
  }
}

/// linear_log_softmax_grad of 70 rows and 301 classes.
Call logsOfRows(DType type, bool hasBias, double cap) {
  const Value x = random(type, {70, 24}, 1, -1, 1), w = random(type, {301, 24}, 2, -1, 1);
  const Value bias = random(type, {301}, 4, -1, 1), each({type == DType::f64 ? DType::f64 : DType::f32, {70}});
  const Value shares = random(each.type.dtype, {301}, 5, 0, 0.01);
  Call call{"linear_log_softmax_grad",
            {random(each.type.dtype, {70}, 6), random(each.type.dtype, {70}, 7), x,
             uniform({DType::i32, {70}}, 3, -301, 301), shares, w},
            {each, each, Value(x.type), Value(w.type)},
            {{"trans_weight", kOne}, {"chunk", int64_t{32}}}};
  if (hasBias) {
    call.inputs.push_back(bias);
    call.outputs.emplace_back(bias.type);
  }
  if (cap != 0)
    call.attributes["cap"] = cap;
  return call;
}

TEST(FastHead, takesLogsOfRows) {
  for (double cap : {0.0, 3.0})
    for (bool hasBias : {true, false})
      forFastTypes([&](DType type) {
        const double tolerance = type == DType::f32 ? 2e-5 : 2e-2;
        Call call = logsOfRows(type, hasBias, cap);
        expectFastMatches(call, tolerance);
        call.name = "linear_log_softmax";
        call.inputs.erase(call.inputs.begin(), call.inputs.begin() + 2);
        call.outputs.erase(call.outputs.begin() + 2, call.outputs.end());
        expectFastMatches(call, tolerance);
      });
}

// The plain head's numbers are those of the log-softmax of its layer, and so are its gradients.
TEST(FastHead, takesLogsAsItsPartsDo) {
  const Call call = logsOfRows(DType::f64, true, 0);
  const std::vector<Value> all = must(run(call));
  const Value &byPicked = call.inputs[0], &byShared = call.inputs[1], &x = call.inputs[2], &labels = call.inputs[3],
              &shares = call.inputs[4], &w = call.inputs[5], &bias = call.inputs[6];
  const TensorType logits{DType::f64, {70, 301}};
  const Attributes axis{{"axis", int64_t{1}}};
  const Value scores = must(run({"matmul", {x, w, bias}, {Value(logits)}, {{"trans_rhs", kOne}}}))[0];
  const Value y = must(run({"log_softmax", {scores}, {Value(logits)}, axis}))[0];
  Value slopes(logits);
  std::vector<double> picked(70), shared(70);
  for (int64_t r = 0; r < 70; ++r) {
    const int64_t label = (static_cast<int64_t>(labels.get(r)) + 301) % 301;
    picked[static_cast<size_t>(r)] = y.get(r * 301 + label);
    for (int64_t c = 0; c < 301; ++c) {
      shared[static_cast<size_t>(r)] += shares.get(c) * y.get(r * 301 + c);
      slopes.set(r * 301 + c, byShared.get(r) * shares.get(c) + (c == label ? byPicked.get(r) : 0));
    }
  }
  expectNear(all[0], picked, 1e-12);
  expectNear(all[1], shared, 1e-12);
  const Value d = must(run({"log_softmax_grad", {slopes, y}, {Value(logits)}, axis}))[0];
  expectNear(all[2], elements(must(run({"matmul", {d, w}, {Value(x.type)}}))[0]), 1e-12);
  expectNear(all[3], elements(must(run({"matmul", {d, x}, {Value(w.type)}, {{"trans_lhs", kOne}}}))[0]), 1e-12);
  expectNear(all[4], elements(must(run({"reduce_sum", {d}, {Value(bias.type)}, {{"axes", Ints{0}}}}))[0]), 1e-12);
}

TEST(FastHead, refusesLabelsOfNoClass) {
  for (bool plain : {true, false})
    for (int64_t label : {301, -302}) {
      Call call = logsOfRows(DType::f32, false, 0);
      call.inputs[3].set(69, static_cast<double>(label));
      Result<std::vector<Value>> result = run(call, plain);
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.error().message,
                "label " + std::to_string(label) + " of kernel 'linear_log_softmax_grad' is not in [-301, 301)");
    }
}

// A frozen layer: loss and the input's gradient have the bits that they have beside the layer's.
TEST(FastHead, hasTheSameBitsWithoutTheLayersGradients) {
  for (bool plain : {true, false})
    for (int64_t chunk : {int64_t{3}, int64_t{7}})
      forFastTypes([&](DType type) {
        const Value x = random(type, {7, 5}, 1, -1, 1), w = random(type, {11, 5}, 2, -1, 1), b = random(type, {11}, 3);
        Call call{"linear_cross_entropy_grad",
                  {f32({}, {3}), x, i64({7}, {1, -100, 0, 10, 5, 5, 2}), w, b},
                  {Value({DType::f32, {}}), Value(x.type), Value(w.type), Value(b.type)},
                  {{"trans_weight", kOne}, {"chunk", chunk}}};
        const std::vector<Value> all = must(run(call, plain));
        call.outputs.erase(call.outputs.begin() + 2, call.outputs.end());
        EXPECT_FALSE(run(call, plain).ok());
        call.attributes["frozen"] = kOne;
        const std::vector<Value> some = must(run(call, plain));
        EXPECT_TRUE(some[0] == all[0]);
        EXPECT_TRUE(some[1] == all[1]);
      });
}

// Rows whose labels do not count are left out where they would fill chunks; which is seen by what they hold.
TEST(FastHead, leavesOutRowsThatDoNotCount) {
  const int64_t rows = 130, width = 33, classes = 301;
  for (int64_t counted : {1, 31, 32, 33, 64, 96, 129})
    for (DType index : {DType::i64, DType::i32})
      forFastTypes([&](DType type) {
        Value x = random(type, {rows, width}, 1, -1, 1), w = random(type, {classes, width}, 2, -1, 1);
        Value labels = uniform({index, {rows}}, 3, 0, static_cast<double>(classes)), bias = random(type, {classes}, 4);
        Value spoilt = x;
        for (int64_t r = 0; r < rows; ++r)
          if (r * counted / rows == (r + 1) * counted / rows) {
            labels.set(r, -100);
            for (int64_t i = 0; i < width; ++i)
              spoilt.set(r * width + i, NAN);
          }
        Call call{"linear_cross_entropy_grad",
                  {f32({}, {3}), x, labels, w, bias},
                  {Value({DType::f32, {}}), Value(x.type), Value(w.type), Value(bias.type)},
                  {{"chunk", int64_t(32)}, {"trans_weight", kOne}}};
        expectFastMatches(call, type == DType::f32 ? 2e-5 : 2e-2);
        std::vector<Value> clean = must(run(call, false));
        call.inputs[1] = spoilt;
        if (counted <= 96) { // fewer chunks than of all rows
          EXPECT_TRUE(must(run(call, false)) == clean) << counted;
        }
      });
}

// Without the whole of the logits the sums are the same: one chunk is the products and the loss apart.
TEST(FastHead, equalsItsPartsBitForBit) {
  const int64_t rows = 96, width = 40, classes = 300;
  Value x = random(DType::f32, {rows, width}, 1, -1, 1), w = random(DType::f32, {classes, width}, 2, -1, 1);
  Value labels = uniform({DType::i64, {rows}}, 3, 0, classes), grad = f32({}, {1});
  TensorType logits{DType::f32, {rows, classes}}, scalar{DType::f32, {}}, lse{DType::f32, {rows}};
  Value y = must(run({"matmul", {x, w}, {Value(logits)}, {{"trans_rhs", kOne}}}, false))[0];
  std::vector<Value> loss = must(run({"cross_entropy", {y, labels}, {Value(scalar), Value(lse)}}, false));
  Value d = must(run({"cross_entropy_grad", {grad, y, labels, loss[1]}, {Value(logits)}}, false))[0];
  Value dx = must(run({"matmul", {d, w}, {Value(x.type)}}, false))[0];
  Value dw = must(run({"matmul", {d, x}, {Value(w.type)}, {{"trans_lhs", kOne}}}, false))[0];
  std::vector<Value> fused = must(run({"linear_cross_entropy_grad",
                                       {grad, x, labels, w},
                                       {Value(scalar), Value(x.type), Value(w.type)},
                                       {{"trans_weight", kOne}, {"chunk", rows}}},
                                      false));
  EXPECT_NEAR(fused[0].get(0), loss[0].get(0), 1e-6);
  EXPECT_TRUE(fused[1] == dx);
  EXPECT_TRUE(fused[2] == dw);
}

/// Where a GPU may round the factors of a head's products, it may in all three.
TEST(FastHead, handsOnHowItsProductsRound) {
  const Value x = random(DType::f32, {4, 3}, 1), w = random(DType::f32, {3, 5}, 2);
  Call call{"linear_cross_entropy_grad",
            {f32({}, {1}), x, uniform({DType::i64, {4}}, 3, 0, 5), w},
            {Value({DType::f32, {}}), Value(x.type), Value(w.type)},
            {{"chunk", int64_t{2}}}};
  for (bool tf32 : {false, true}) {
    call.tf32 = tf32;
    const Result<shapes::HeadShape> shape = shapes::readHeadGrad(call.spec());
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    for (const KernelSpec &product : {shapes::logitsOf(*shape, 2), shapes::inputGradOf(*shape, 2),
                                      shapes::weightGradOf(*shape, 2, true), shapes::weightGradOf(*shape, 2, false)})
      EXPECT_EQ(product.tf32, tf32) << product.name;
  }
}

/// A head as its parts, one after the other: loss, and the gradients of input, weight and bias.
std::vector<Value> partByPart(const KernelRegistry &products, const Value &grad, const Value &x, const Value &labels,
                              const Value &w, const Value &bias, const Attributes &reduction) {
  TensorType logits{x.type.dtype, {x.type.dims[0], w.type.dims[0]}}, lse{grad.type.dtype, {x.type.dims[0]}};
  Value y = must(runOn(products, {"matmul", {x, w, bias}, {Value(logits)}, {{"trans_rhs", kOne}}}))[0];
  std::vector<Value> loss =
      must(runOn(blockRegistry(), {"cross_entropy", {y, labels}, {Value(grad.type), Value(lse)}, reduction}));
  Value d =
      must(runOn(blockRegistry(), {"cross_entropy_grad", {grad, y, labels, loss[1]}, {Value(logits)}, reduction}))[0];
  Value dx = must(runOn(products, {"matmul", {d, w}, {Value(x.type)}}))[0];
  Value dw = must(runOn(products, {"matmul", {d, x}, {Value(w.type)}, {{"trans_lhs", kOne}}}))[0];
  Value db = must(runOn(blockRegistry(), {"reduce_sum", {d}, {Value(bias.type)}, {{"axes", Ints{0}}}}))[0];
  return {loss[0], dx, dw, db};
}

/// A GPU's, whose products are the CPU's plain ones on a host's blocks: but for sums over several chunks they have the
/// bits of its parts. On a GPU the library chooses products by shape.
TEST(BlockHead, equalsItsPartsBitForBit) {
  const int64_t rows = 70, width = 24, classes = 301;
  const bool isHost = !blockRegistry().contains("matmul");
  for (DType type : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (bool sums : {false, true}) {
      SCOPED_TRACE(std::string(nameOf(type)) + (sums ? " summed" : ""));
      Value x = random(type, {rows, width}, 1, -1, 1), w = random(type, {classes, width}, 2, -1, 1);
      Value labels = uniform({DType::i32, {rows}}, 3, 0, classes), bias = random(type, {classes}, 4);
      Value grad({type == DType::f64 ? DType::f64 : DType::f32, {}});
      grad.set(0, 3);
      labels.set(7, -100);
      Attributes attributes;
      if (sums)
        attributes["sum"] = kOne;
      const std::vector<Value> expected =
          partByPart(isHost ? registry(true) : blockRegistry(), grad, x, labels, w, bias, attributes);
      attributes["trans_weight"] = kOne;
      for (int64_t chunk : {rows, int64_t{1} << 40, int64_t{32}, int64_t{35}}) {
        SCOPED_TRACE("chunks of " + std::to_string(chunk));
        attributes["chunk"] = chunk;
        std::vector<Value> loss = must(
            runOn(blockRegistry(), {"linear_cross_entropy", {x, labels, w, bias}, {Value(grad.type)}, attributes}));
        EXPECT_TRUE(!isHost || loss[0] == expected[0]);
        std::vector<Value> fused =
            must(runOn(blockRegistry(), {"linear_cross_entropy_grad",
                                         {grad, x, labels, w, bias},
                                         {loss[0], Value(x.type), Value(w.type), Value(bias.type)},
                                         attributes}));
        EXPECT_TRUE(fused[0] == loss[0]);
        EXPECT_TRUE(!isHost || fused[1] == expected[1]);
        EXPECT_TRUE(!isHost || chunk < rows || fused[2] == expected[2]);
        for (size_t i = 0; i < fused.size(); ++i)
          expectNear(fused[i], elements(expected[i]), 1e-5 + roundingOf(type));
      }
    }
}

/// No rows: no loss, and a gradient of zeros.
TEST(BlockHead, hasAGradientWithoutRows) {
  Value x({DType::bf16, {0, 4}}), w = random(DType::bf16, {9, 4}, 1), loss(TensorType{DType::f32, {}});
  Value labels({DType::i64, {0}});
  auto results = runOn(blockRegistry(), {"linear_cross_entropy_grad",
                                         {f32({}, {1}), x, labels, w},
                                         {loss, x, w},
                                         {{"trans_weight", kOne}, {"chunk", int64_t{8}}}});
  ASSERT_TRUE(results.ok()) << results.error().message;
  EXPECT_TRUE(std::isnan((*results)[0].get(0)));
  expectNear((*results)[2], std::vector<double>(36, 0.0), 0);
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
