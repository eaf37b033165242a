#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

Value out(DType dtype, std::vector<int64_t> dims) { return Value({dtype, std::move(dims)}); }
Value outF(std::vector<int64_t> dims) { return out(DType::f32, std::move(dims)); }

TEST(Elementwise, unaryFormulas) {
  struct Row {
    const char *name;
    double (*formula)(double);
  };
  for (Row row :
       {Row{"neg", [](double x) { return -x; }}, Row{"abs", [](double x) { return std::fabs(x); }},
        Row{"exp", [](double x) { return std::exp(x); }}, Row{"sqrt", [](double x) { return std::sqrt(x); }},
        Row{"reciprocal", [](double x) { return 1 / x; }}, Row{"sin", [](double x) { return std::sin(x); }},
        Row{"cos", [](double x) { return std::cos(x); }}, Row{"tanh", [](double x) { return std::tanh(x); }},
        Row{"log", [](double x) { return std::log(x); }}, Row{"erf", [](double x) { return std::erf(x); }},
        Row{"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
        Row{"silu", [](double x) { return x / (1 + std::exp(-x)); }},
        Row{"relu", [](double x) { return x < 0 ? 0 : x; }}, Row{"floor", [](double x) { return std::floor(x); }},
        Row{"ceil", [](double x) { return std::ceil(x); }},
        Row{"sign", [](double x) { return double(x > 0) - double(x < 0); }}}) {
    std::vector<double> x = {0.25, 1, 3.75, 0.5, 2}, y;
    if (std::string(row.name) != "log" && std::string(row.name) != "sqrt")
      x[0] = -1.25;
    for (double v : x)
      y.push_back(row.formula(v));
    expectOutputs({row.name, {f32({5}, x)}, {outF({5})}}, {y}, 1e-6);
    expectOutputs({row.name, {f64({5}, x)}, {out(DType::f64, {5})}}, {y}, 1e-14);
    expectOutputs({row.name, {make(DType::bf16, {5}, x)}, {out(DType::bf16, {5})}}, {y}, 8e-3);
  }
  expectOutputs({"round", {f32({4}, {0.5, 1.5, -2.5, 2.6})}, {outF({4})}}, {{0, 2, -2, 3}});
  expectOutputs({"relu", {f32({2}, {kNan, -kInfinity})}, {outF({2})}}, {{kNan, 0}});
  expectOutputs({"is_nan", {f32({3}, {1, kNan, kInfinity})}, {out(DType::boolean, {3})}}, {{0, 1, 0}});
  expectOutputs({"not", {boolean({2}, {0, 1})}, {out(DType::boolean, {2})}}, {{1, 0}});
  expectOutputs({"neg", {i64({2}, {3, -4})}, {out(DType::i64, {2})}}, {{-3, 4}});
}

TEST(Elementwise, binaryBroadcastsLikeNumpy) {
  Value a = f32({2, 1, 2}, {1, 2, 3, 4}), b = f32({3, 1}, {10, 20, 30});
  expectOutputs({"add", {a, b}, {outF({2, 3, 2})}}, {{11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34}});
  expectOutputs({"sub", {f32({}, {1}), f32({3}, {1, 2, 3})}, {outF({3})}}, {{0, -1, -2}});
  expectOutputs({"mul", {a, f32({0, 1}, {})}, {outF({2, 0, 2})}}, {{}});
  expectOutputs({"less", {a, f32({1}, {2.5})}, {out(DType::boolean, {2, 1, 2})}}, {{1, 1, 0, 0}});
}

TEST(Elementwise, integersNeverTrap) {
  double low = -9223372036854775808.0;
  Value out64 = out(DType::i64, {4});
  expectOutputs({"div", {i64({4}, {7, -7, low, 5}), i64({4}, {2, 2, -1, 0})}, {out64}}, {{3, -3, low, 0}});
  expectOutputs({"mod", {i64({4}, {7, -7, low, 5}), i64({4}, {3, 3, -1, 0})}, {out64}}, {{1, 2, 0, 0}});
  expectOutputs({"pow", {i64({4}, {2, -1, 3, 0}), i64({4}, {10, -3, -1, 0})}, {out64}}, {{1024, -1, 0, 1}});
  expectOutputs({"add", {make(DType::i8, {1}, {127}), make(DType::i8, {1}, {1})}, {out(DType::i8, {1})}}, {{-128}});
}

TEST(Elementwise, nanWinsMinAndMax) {
  Value a = f32({3}, {kNan, 1, 2}), b = f32({3}, {1, kNan, 3});
  expectOutputs({"min", {a, b}, {outF({3})}}, {{kNan, kNan, 2}});
  expectOutputs({"max", {a, b}, {outF({3})}}, {{kNan, kNan, 3}});
  expectOutputs({"mod", {f32({2}, {5.5, -5.5}), f32({2}, {-2, 2})}, {outF({2})}}, {{-0.5, 0.5}});
}

TEST(Elementwise, selectAndLogic) {
  expectOutputs({"select", {boolean({2, 1}, {1, 0}), f32({3}, {1, 2, 3}), f32({}, {9})}, {outF({2, 3})}},
                {{1, 2, 3, 9, 9, 9}});
  Value a = boolean({4}, {0, 0, 1, 1}), b = boolean({4}, {0, 1, 0, 1}), o = out(DType::boolean, {4});
  expectOutputs({"and", {a, b}, {o}}, {{0, 0, 0, 1}});
  expectOutputs({"or", {a, b}, {o}}, {{0, 1, 1, 1}});
  expectOutputs({"xor", {a, b}, {o}}, {{0, 1, 1, 0}});
}

TEST(Elementwise, gradientsMatchDifferences) {
  struct Row {
    const char *forward, *backward;
    Attributes attributes;
  };
  for (const Row &row :
       {Row{"gelu", "gelu_grad", {}}, Row{"gelu", "gelu_grad", {{"tanh", int64_t{1}}}}, Row{"silu", "silu_grad", {}}}) {
    std::vector<double> x = {-3, -0.7, 0, 0.4, 2.5}, up = x, down = x, slope;
    double h = 1e-5;
    for (size_t i = 0; i < x.size(); ++i) {
      up[i] += h;
      down[i] -= h;
    }
    Value y = out(DType::f64, {5});
    auto plus = run({row.forward, {f64({5}, up)}, {y}, row.attributes});
    auto minus = run({row.forward, {f64({5}, down)}, {y}, row.attributes});
    ASSERT_TRUE(plus.ok() && minus.ok());
    for (size_t i = 0; i < x.size(); ++i)
      slope.push_back(2 * ((*plus)[0].get(i) - (*minus)[0].get(i)) / (2 * h));
    expectOutputs({row.backward, {f64({5}, {2, 2, 2, 2, 2}), f64({5}, x)}, {y}, row.attributes}, {slope}, 1e-8);
  }
  // ONNX's own examples of Gelu, at 1.
  expectOutputs({"gelu", {f32({1}, {1})}, {outF({1})}}, {{0.84134474606854}});
  expectOutputs({"gelu", {f32({1}, {1})}, {outF({1})}, {{"tanh", int64_t{1}}}}, {{0.84119199060828}});
}

TEST(Cast, truncatesSaturatesAndTests) {
  Value x = f32({5}, {-1.75, 2.5, 1e30, -kInfinity, kNan});
  expectOutputs({"cast", {x}, {out(DType::i32, {5})}}, {{-1, 2, 2147483647, -2147483648.0, 0}});
  expectOutputs({"cast", {x}, {out(DType::boolean, {5})}}, {{1, 1, 1, 1, 1}});
  expectOutputs({"cast", {i64({2}, {0, 300})}, {out(DType::boolean, {2})}}, {{0, 1}});
  expectOutputs({"cast", {f32({2}, {1.00390625, 1.01171875})}, {out(DType::bf16, {2})}},
                {{1.0, 1.015625}}); // ties to even
  // Through f16 and back: exact, subnormal (2^-24), overflow.
  auto half = run({"cast", {f32({4}, {-1.5, 5.9604644775390625e-8, 65519, 65520})}, {out(DType::f16, {4})}});
  ASSERT_TRUE(half.ok());
  expectOutputs({"cast", {(*half)[0]}, {outF({4})}}, {{-1.5, 5.9604644775390625e-8, 65504, kInfinity}}, 0);
}

TEST(Move, reordersElements) {
  Value x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  expectOutputs({"transpose", {x}, {outF({3, 2})}, {{"permutation", Ints{1, 0}}}}, {{1, 4, 2, 5, 3, 6}});
  expectOutputs({"expand", {f32({2, 1}, {1, 2})}, {outF({2, 2, 2})}}, {{1, 1, 2, 2, 1, 1, 2, 2}});
  Attributes slice = {{"offsets", Ints{1, 2}}, {"strides", Ints{1, -2}}};
  expectOutputs({"slice", {x}, {outF({1, 2})}, slice}, {{6, 4}});
  expectOutputs({"slice_grad", {f32({1, 2}, {7, 8})}, {outF({2, 3})}, slice}, {{0, 0, 0, 8, 0, 7}});
  expectOutputs({"concat", {x, f32({2, 1}, {8, 9})}, {outF({2, 4})}, {{"axis", int64_t{1}}}},
                {{1, 2, 3, 8, 4, 5, 6, 9}});
  expectOutputs({"pad", {x}, {outF({3, 3})}, {{"low", Ints{1, -1}}, {"high", Ints{0, 1}}, {"value", -1.5}}},
                {{-1.5, -1.5, -1.5, 2, 3, -1.5, 5, 6, -1.5}});
  expectOutputs({"transpose",
                 {make(DType::u8, {1, 2, 2}, {1, 2, 3, 4})},
                 {out(DType::u8, {2, 2, 1})},
                 {{"permutation", Ints{2, 1, 0}}}},
                {{1, 3, 2, 4}});
  expectOutputs({"copy", {x}, {outF({6})}}, {{1, 2, 3, 4, 5, 6}});
}

/// Rank 5 of nodes of 4: the second of its node's ranks, on the second node.
TEST(Move, ownPart) {
  Value x = f32({6}, {0, 1, 2, 3, 4, 5});
  Call local{"own_part", {x}, {Value({DType::f32, {2}})}, {{"parts", int64_t{3}}, {"divisor", int64_t{1}}}};
  local.rank = 4;
  expectOutputs(local, {{2, 3}});
  Call node{"own_part", {x}, {Value({DType::f32, {3}})}, {{"parts", int64_t{2}}, {"divisor", int64_t{4}}}};
  node.rank = 5;
  expectOutputs(node, {{3, 4, 5}});
  node.attributes["parts"] = int64_t{4};
  EXPECT_FALSE(run(node).ok());
}

TEST(Constant, splatDenseAndIota) {
  expectOutputs({"constant", {}, {outF({2})}, {{"value", 0.5}}}, {{0.5, 0.5}});
  expectOutputs({"constant", {}, {out(DType::i64, {1})}, {{"value", int64_t{-7}}}}, {{-7}});
  expectOutputs({"constant", {}, {out(DType::u8, {2})}, {{"data", std::string("\x01\x00", 2)}}}, {{1, 0}});
  for (int64_t n : {1025, 70000}) { // which travel to a GPU in pieces
    std::string data;
    std::vector<double> expected;
    for (int64_t i = 0; i < n; ++i) {
      data += static_cast<char>(i * 7 % 251);
      expected.push_back(static_cast<double>(i * 7 % 251));
    }
    expectOutputs({"constant", {}, {out(DType::u8, {n})}, {{"data", data}}}, {expected});
  }
  expectOutputs({"iota", {}, {out(DType::i64, {3})}, {{"start", 5.0}, {"delta", -2.0}}}, {{5, 3, 1}});
}

TEST(Index, gathersAndScatters) {
  Value data = f32({3, 2}, {1, 2, 3, 4, 5, 6}), indices = i64({2, 2}, {0, -1, 2, 0});
  expectOutputs({"gather", {data, indices}, {outF({2, 2, 2})}, {{"axis", int64_t{0}}}}, {{1, 2, 5, 6, 5, 6, 1, 2}});
  expectOutputs({"gather", {data, make(DType::i32, {1}, {1})}, {outF({3, 1})}, {{"axis", int64_t{1}}}}, {{2, 4, 6}});
  Value grad = f32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  expectOutputs({"gather_grad", {grad, indices}, {outF({3, 2})}, {{"axis", int64_t{0}}}}, {{8, 10, 0, 0, 8, 10}});
  expectOutputs(
      {"gather_grad", {f32({3, 2}, {1, 2, 3, 4, 5, 6}), i64({2}, {1, 1})}, {outF({3, 2})}, {{"axis", int64_t{1}}}},
      {{0, 3, 0, 7, 0, 11}});
  expectOutputs(
      {"gather_grad", {grad, indices, f32({3, 2}, {1, 1, 2, 2, 3, 3})}, {outF({3, 2})}, {{"axis", int64_t{0}}}},
      {{9, 11, 2, 2, 11, 13}});
  Value picks = i64({3, 1}, {1, 0, -1});
  expectOutputs({"gather_elements", {data, picks}, {outF({3, 1})}, {{"axis", int64_t{1}}}}, {{2, 3, 6}});
  expectOutputs({"gather_elements_grad", {f32({3, 1}, {7, 8, 9}), picks}, {outF({3, 2})}, {{"axis", int64_t{1}}}},
                {{0, 7, 8, 0, 0, 9}});
  Value tuples = i64({2, 2}, {0, 1, -1, 0});
  expectOutputs({"gather_nd", {data, tuples}, {outF({2})}, {{"batch_dims", int64_t{0}}}}, {{2, 5}});
  expectOutputs({"gather_nd", {data, i64({3, 1}, {1, 0, 1})}, {outF({3})}, {{"batch_dims", int64_t{1}}}}, {{2, 3, 6}});
  expectOutputs({"gather_nd_grad", {f32({2}, {7, 8}), tuples}, {outF({3, 2})}, {{"batch_dims", int64_t{0}}}},
                {{0, 7, 0, 0, 8, 0}});
}

TEST(Reduce, sumsMeansAndMaxima) {
  Value x = f32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, kNan});
  expectOutputs({"reduce_sum", {x}, {outF({2})}, {{"axes", Ints{0, 2}}}}, {{14, kNan}});
  expectOutputs({"reduce_max", {x}, {outF({2, 1, 2})}, {{"axes", Ints{1}}, {"keepdims", int64_t{1}}}},
                {{3, 4, 7, kNan}});
  expectOutputs({"reduce_mean", {x}, {outF({2, 2})}, {{"axes", Ints{2}}}}, {{1.5, 3.5, 5.5, kNan}});
  expectOutputs({"reduce_mean", {f32({0}, {})}, {outF({})}, {{"axes", Ints{0}}}}, {{kNan}});
  expectOutputs({"reduce_max", {i64({2}, {-5, -3})}, {out(DType::i64, {})}, {{"axes", Ints{0}}}}, {{-3}});
  expectOutputs({"reduce_sum", {boolean({2}, {1, 1})}, {out(DType::boolean, {})}, {{"axes", Ints{0}}}}, {{1}});
}

TEST(Matmul, transposesBroadcastsAndAddsBias) {
  Value a = f32({2, 3}, {1, 2, 3, 4, 5, 6}), at = f32({3, 2}, {1, 4, 2, 5, 3, 6});
  Value b = f32({3, 2}, {1, 0, 0, 1, 1, 1}), bt = f32({2, 3}, {1, 0, 1, 0, 1, 1});
  int64_t one = 1;
  expectOutputs({"matmul", {a, b}, {outF({2, 2})}}, {{4, 5, 10, 11}});
  expectOutputs({"matmul", {at, bt}, {outF({2, 2})}, {{"trans_lhs", one}, {"trans_rhs", one}}}, {{4, 5, 10, 11}});
  expectOutputs({"matmul", {a, bt, f32({2}, {100, 200})}, {outF({2, 2})}, {{"trans_rhs", one}}},
                {{104, 205, 110, 211}});
  expectOutputs({"matmul", {f32({2, 1, 1, 2}, {1, 2, 3, 4}), f32({2, 2, 1}, {1, 1, 2, 0})}, {outF({2, 2, 1, 1})}},
                {{3, 2, 7, 6}});
  expectOutputs({"matmul", {f32({1, 0}, {}), f32({0, 2}, {}), f32({2}, {5, 6})}, {outF({1, 2})}}, {{5, 6}});
}

TEST(Norm, layerNormAndRms) {
  Value x = f32({1, 4}, {1, 2, 3, 4}), scale = f32({4}, {1, 1, 2, 2}), bias = f32({4}, {0, 1, 0, 1});
  double r = 1 / std::sqrt(1.25 + 0.75); // variance 1.25, epsilon 0.75
  Attributes attributes = {{"axis", int64_t{1}}, {"epsilon", 0.75}};
  expectOutputs({"layer_norm", {x, scale, bias}, {outF({1, 4}), outF({1}), outF({1})}, attributes},
                {{-1.5 * r, 1 - 0.5 * r, r, 1 + 3 * r}, {2.5}, {r}});
  expectOutputs({"layer_norm", {x, scale}, {outF({1, 4}), outF({1}), outF({1})}, attributes},
                {{-1.5 * r, -0.5 * r, r, 3 * r}, {2.5}, {r}});
  double q = 1 / std::sqrt(7.5 + 0.75); // mean square 30 / 4
  expectOutputs({"rms_norm", {x, scale}, {outF({1, 4}), outF({1})}, attributes}, {{q, 2 * q, 6 * q, 8 * q}, {q}});
}

/// d loss / d input[which] by central differences, where loss = sum of weights * first output of `call`.
std::vector<double> differences(Call call, size_t which, const std::vector<double> &weights) {
  std::vector<double> result;
  double h = 1e-5;
  for (size_t i = 0; i < call.inputs[which].size(); ++i) {
    double x = call.inputs[which].get(i), loss[2];
    for (int side = 0; side < 2; ++side) {
      call.inputs[which].set(i, side ? x - h : x + h);
      auto outputs = run(call);
      EXPECT_TRUE(outputs.ok());
      loss[side] = 0;
      for (size_t j = 0; j < weights.size(); ++j)
        loss[side] += weights[j] * (*outputs)[0].get(j);
    }
    call.inputs[which].set(i, x);
    result.push_back((loss[0] - loss[1]) / (2 * h));
  }
  return result;
}

/// Runs `forward` in f64 and checks `backward`, whose inputs are made from (weights, forward's inputs and outputs).
template <typename MakeBackward>
void expectGradients(const Call &forward, size_t count, MakeBackward makeBackward, double tolerance = 1e-7) {
  SCOPED_TRACE(forward.name);
  auto outputs = run(forward);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  Value weights = uniform((*outputs)[0].type, 99, -1, 1);
  std::vector<std::vector<double>> expected;
  for (size_t i = 0; i < count; ++i)
    expected.push_back(differences(forward, i, elements(weights)));
  expectOutputs(makeBackward(weights, *outputs), expected, tolerance);
}

TEST(Norm, gradientsMatchDifferences) {
  TensorType x{DType::f64, {3, 5}}, row{DType::f64, {5}}, stat{DType::f64, {3}};
  Attributes attributes = {{"axis", int64_t{1}}, {"epsilon", 0.1}};
  Call layer{"layer_norm",
             {uniform(x, 1, -1, 1), uniform(row, 2, 0, 2), uniform(row, 3, -1, 1)},
             {Value(x), Value(stat), Value(stat)},
             attributes};
  expectGradients(layer, 3, [&](const Value &w, const std::vector<Value> &y) {
    return Call{"layer_norm_grad",
                {w, layer.inputs[0], layer.inputs[1], y[1], y[2]},
                {Value(x), Value(row), Value(row)},
                attributes};
  });
  Call rms{"rms_norm", {uniform(x, 1, -1, 1), uniform(row, 2, 0, 2)}, {Value(x), Value(stat)}, attributes};
  expectGradients(rms, 2, [&](const Value &w, const std::vector<Value> &y) {
    return Call{"rms_norm_grad", {w, rms.inputs[0], rms.inputs[1], y[1]}, {Value(x), Value(row)}, attributes};
  });
}

TEST(Softmax, anyAxisAndMaskedRows) {
  double e = std::exp(1.0);
  Attributes attributes = {{"axis", int64_t{0}}};
  expectOutputs({"softmax", {f32({2, 1}, {0, 1})}, {outF({2, 1})}, attributes}, {{1 / (1 + e), e / (1 + e)}});
  expectOutputs({"log_softmax", {f32({2, 1}, {1000, 1001})}, {outF({2, 1})}, attributes},
                {{-std::log(1 + e), 1 - std::log(1 + e)}});
  Value masked = f32({2}, {-kInfinity, -kInfinity});
  expectOutputs({"softmax", {masked}, {outF({2})}, attributes}, {{kNan, kNan}});
  attributes["zero_masked"] = int64_t{1};
  expectOutputs({"softmax", {masked}, {outF({2})}, attributes}, {{0, 0}});
  TensorType x{DType::f64, {2, 3, 2}};
  for (const char *name : {"softmax", "log_softmax"}) {
    Call forward{name, {uniform(x, 1, -2, 2)}, {Value(x)}, {{"axis", int64_t{1}}}};
    expectGradients(forward, 1, [&](const Value &w, const std::vector<Value> &y) {
      return Call{name + std::string("_grad"), {w, y[0]}, {Value(x)}, forward.attributes};
    });
  }
}

TEST(Attention, gradientsMatchDifferences) {
  TensorType q{DType::f64, {1, 4, 3, 2}}, k{DType::f64, {1, 2, 5, 2}}, v{DType::f64, {1, 2, 5, 3}},
      y{DType::f64, {1, 4, 3, 3}}, lse{DType::f64, {1, 4, 3}};
  Call forward{"attention",
               {uniform(q, 1, -1, 1), uniform(k, 2, -1, 1), uniform(v, 3, -1, 1),
                boolean({1, 1, 3, 5}, {1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1})},
               {Value(y), Value(lse)},
               {{"scale", 0.7}, {"causal", int64_t{1}}}};
  auto outputs = run(forward);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].get(3), 0); // row 1 is masked out
  EXPECT_EQ((*outputs)[1].get(1), -kInfinity);
  expectGradients(forward, 3, [&](const Value &w, const std::vector<Value> &results) {
    return Call{"attention_grad",
                {w, forward.inputs[0], forward.inputs[1], forward.inputs[2], results[0], results[1], forward.inputs[3]},
                {Value(q), Value(k), Value(v)},
                forward.attributes};
  });
}

/// Of heads that share keys, and of a mask of `dims` that is trained.
void expectMaskedGradients(const std::vector<int64_t> &dims, const Attributes &attributes) {
  TensorType q{DType::f64, {2, 4, 3, 2}}, k{DType::f64, {2, 2, 5, 2}}, lse{DType::f64, {2, 4, 3}};
  Value mask = uniform({DType::f64, dims}, 4, -1, 1);
  Call forward{"attention",
               {uniform(q, 1, -1, 1), uniform(k, 2, -1, 1), uniform(k, 3, -1, 1), mask},
               {Value(q), Value(lse)},
               attributes};
  Attributes ofMask = attributes;
  ofMask["mask_grad"] = int64_t{1};
  expectGradients(forward, 4, [&](const Value &w, const std::vector<Value> &results) {
    return Call{"attention_grad",
                {w, forward.inputs[0], forward.inputs[1], forward.inputs[2], results[0], results[1], mask},
                {Value(q), Value(k), Value(k), Value(mask.type)},
                ofMask};
  });
}

TEST(Attention, gradientsOfAMaskMatchDifferences) {
  using Shape = std::vector<int64_t>;
  for (const Shape &dims : {Shape{1, 4, 3, 5}, Shape{2, 1, 3, 5}, Shape{1, 1, 3, 5}, Shape{2, 4, 3, 5}})
    expectMaskedGradients(dims, {{"scale", 1.0}, {"causal", int64_t{1}}});
}

TEST(Attention, gradientsMatchDifferencesWhereItDrops) {
  expectMaskedGradients({1, 4, 3, 5}, {{"scale", 0.7}, {"dropout", 0.4}, {"dropout_id", int64_t{3}}});
}

TEST(Attention, gradientsMatchDifferencesUnderASoftcap) {
  expectMaskedGradients({1, 4, 3, 5}, {{"scale", 1.7}, {"softcap", 0.8}, {"causal", int64_t{1}}});
  expectMaskedGradients({1, 4, 3, 5}, {{"scale", 1.7}, {"softcap", 0.8}, {"window", int64_t{2}}});
}

TEST(Attention, equalKeysAverageTheValues) {
  Call call{"attention",
            {f32({1, 1, 2, 1}, {1, 2}), f32({1, 1, 2, 1}, {0, 0}), f32({1, 1, 2, 1}, {10, 30})},
            {outF({1, 1, 2, 1}), outF({1, 1, 2})},
            {{"scale", 1.0}}};
  expectOutputs(call, {{20, 20}, {std::log(2.0), std::log(2.0)}});
  call.attributes["causal"] = int64_t{1};
  expectOutputs(call, {{10, 20}, {0, std::log(2.0)}});
  call.attributes["window"] = int64_t{1};
  expectOutputs(call, {{10, 30}, {0, 0}});
  call.attributes.erase("window");
  call.inputs.push_back(f32({1, 1, 1, 2}, {-kInfinity, 0}));
  expectOutputs(call, {{0, 30}, {-kInfinity, 0}});
}

TEST(CrossEntropy, meanSumAndIgnoredRows) {
  Value logits = f32({3, 2}, {0, 0, 1, 0, 5, 5}), labels = i64({3}, {1, 0, -100});
  double first = std::log(2.0), second = std::log(1 + std::exp(-1.0)), lse = std::log(1 + std::exp(1.0));
  Call call{"cross_entropy", {logits, labels}, {outF({}), outF({3})}, {{"ignore_index", int64_t{-100}}}};
  expectOutputs(call, {{(first + second) / 2}, {first, lse, 5 + first}});
  call.attributes["sum"] = int64_t{1};
  expectOutputs(call, {{first + second}, {first, lse, 5 + first}});
  call.attributes = {{"ignore_index", int64_t{-100}}};
  call.inputs[1] = i64({3}, {-100, -100, -100});
  expectOutputs(call, {{kNan}, {first, lse, 5 + first}});
  Value logits64 = uniform({DType::f64, {3, 4}}, 1, -2, 2), labels64 = i64({3}, {3, -100, 0});
  Call forward{"cross_entropy", {logits64, labels64}, {out(DType::f64, {}), out(DType::f64, {3})}, {}};
  expectGradients(forward, 1, [&](const Value &w, const std::vector<Value> &y) {
    return Call{"cross_entropy_grad", {w, logits64, labels64, y[1]}, {Value(logits64.type)}, {}};
  });
}

TEST(LabelIndex, ignoredLabelsBecomeZero) {
  expectOutputs({"label_index",
                 {i64({4}, {2, -100, 0, 1})},
                 {Value(TensorType{DType::i64, {4}})},
                 {{"classes", int64_t{3}}, {"ignore_index", int64_t{-100}}}},
                {{2, 0, 0, 1}});
}

TEST(Dropout, replaysAndScales) {
  TensorType x{DType::f32, {10001}}, mask{DType::boolean, {10001}};
  Call call{"dropout",
            {make(DType::f32, {10001}, std::vector<double>(10001, 3))},
            {Value(x), Value(mask)},
            {{"ratio", 0.25}, {"id", int64_t{3}}}};
  auto first = run(call), again = run(call);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_TRUE((*first)[1] == (*again)[1]);
  double kept = 0;
  for (size_t i = 0; i < 10001; ++i) {
    kept += (*first)[1].get(i);
    ASSERT_FLOAT_EQ(static_cast<float>((*first)[0].get(i)), (*first)[1].get(i) != 0 ? 4.0f : 0.0f);
  }
  EXPECT_NEAR(kept / 10001, 0.75, 0.02);
  std::vector<Call> others(5, call);
  others[0].seed = 1;
  others[1].rank = 1;
  others[2].context.step = 2;
  others[3].context.micro = 1;
  others[4].attributes["id"] = int64_t{4};
  for (const Call &other : others)
    EXPECT_FALSE(must(run(other))[1] == (*first)[1]);
  expectOutputs({"dropout_grad", {f32({3}, {1, 2, 3}), boolean({3}, {1, 0, 1})}, {outF({3})}, {{"ratio", 0.5}}},
                {{2, 0, 6}});
  expectOutputs({"dropout", {f32({2}, {1, 2})}, {outF({2}), out(DType::boolean, {2})}, {{"ratio", 1.0}}},
                {{0, 0}, {0, 0}});
}

/// Of [rows, ranks, run] elements a rank has [rows, run]: what it draws is what the whole has there, whether blocks of
/// the generator fall together with runs or not.
TEST(Dropout, aPartDrawsWhatTheWholeHasThere) {
  constexpr int64_t kRows = 5, kRanks = 3;
  for (int64_t width : {1, 3, 6, 8}) {
    int64_t stride = width * kRanks, part = kRows * width;
    auto ones = [](int64_t n) { return make(DType::f32, {n}, std::vector<double>(static_cast<size_t>(n), 1)); };
    auto place = [&](int64_t rank, int64_t e) {
      return static_cast<size_t>(e / width * stride + rank * width + e % width);
    };
    TensorType all{DType::f32, {kRows * stride}}, own{DType::f32, {part}};
    Call dropout{"dropout",
                 {ones(kRows * stride)},
                 {Value(all), Value({DType::boolean, all.dims})},
                 {{"ratio", 0.4}, {"id", int64_t{3}}}};
    auto whole = run(dropout);
    ASSERT_TRUE(whole.ok());
    auto maskOf = [](Call call) {
      call.name = "dropout_mask";
      call.inputs.erase(call.inputs.begin());
      call.outputs.erase(call.outputs.begin());
      return must(run(call))[0];
    };
    EXPECT_TRUE(maskOf(dropout) == (*whole)[1]);
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      Call parts{"dropout",
                 {ones(part)},
                 {Value(own), Value({DType::boolean, own.dims})},
                 {{"ratio", 0.4}, {"id", int64_t{3}}, {"run", width}, {"stride", stride}}};
      parts.modelRank = static_cast<int>(rank);
      auto found = run(parts);
      ASSERT_TRUE(found.ok()) << found.error().message;
      EXPECT_TRUE(maskOf(parts) == (*found)[1]);
      for (int64_t e = 0; e < part; ++e)
        for (size_t output : {0, 1})
          ASSERT_EQ((*found)[output].get(static_cast<size_t>(e)), (*whole)[output].get(place(rank, e))) << e;
    }
    for (int64_t normal : {0, 1}) {
      auto numbers = run({"random", {}, {Value(all)}, {{"id", int64_t{4}}, {"normal", normal}}});
      Call second{
          "random", {}, {Value(own)}, {{"id", int64_t{4}}, {"normal", normal}, {"run", width}, {"stride", stride}}};
      second.modelRank = 1;
      auto found = run(second);
      ASSERT_TRUE(numbers.ok() && found.ok());
      for (int64_t e = 0; e < part; ++e)
        ASSERT_EQ((*found)[0].get(static_cast<size_t>(e)), (*numbers)[0].get(place(1, e))) << e;
    }
  }
  TensorType x{DType::f32, {4}}, mask{DType::boolean, {4}};
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  for (int64_t runOf : {kLeast, int64_t{0}, int64_t{2}, int64_t{4}, kMost - 3, kMost}) // of a plan that lies: no crash
    for (int64_t stride : {kLeast, int64_t{0}, kMost - 3, kMost}) {
      Call bad{"dropout", {Value(x)}, {Value(x), Value(mask)}, {{"run", runOf}, {"stride", stride}}};
      bad.modelRank = 3;
      EXPECT_TRUE(run(bad).ok());
    }
}

TEST(Metrics, lossAndGaps) {
  Call call{"accumulate_loss", {f32({}, {2})}, {f64({1}, {5})}, {}, 1, {}};
  expectOutputs(call, {{2}});
  call.context.micro = 1;
  expectOutputs(call, {{7}});
  Call weighted{"accumulate_loss", {f32({}, {2}), f32({}, {0.5})}, {f64({2}, {5, 3})}, {}, 1, {}};
  expectOutputs(weighted, {{2, 0.5}});
  weighted.context.micro = 1;
  expectOutputs(weighted, {{7, 3.5}});
  expectOutputs({"fill_gaps", {}, {f32({5}, {1, 2, 3, 4, 5})}, {{"gaps", Ints{1, 2, 4, 1}}}}, {{1, 0, 0, 4, 0}});
}

} // namespace
} // namespace zc::test
