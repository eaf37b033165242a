// Convolutions, pools and batch norm: corners of the plain kernels (the rest is compared with ONNX's own examples and
// by finite differences), and each fast kernel against its plain version.
#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

using Ints = std::vector<int64_t>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Attributes windows(Ints strides, Ints dilations, Ints low) {
  return {{"strides", strides}, {"dilations", dilations}, {"low", low}};
}
Attributes with(Attributes attributes, const std::string &key, Attribute value) {
  attributes[key] = std::move(value);
  return attributes;
}

TEST(Plain, windowsBehindTheInputAreEmptyAndNanIsLargest) {
  Attributes pool = with(windows({2}, {1}, {1}), "kernel", Ints{2});
  expectOutputs({"max_pool",
                 {f32({1, 1, 4}, {3, kNan, -kInfinity, -kInfinity})},
                 {Value({DType::f32, {1, 1, 4}}), Value({DType::i32, {1, 1, 4}})},
                 pool},
                {{3, kNan, -kInfinity, -kInfinity}, {0, 1, 3, -1}});
  expectOutputs({"sum_pool", {f32({1, 1, 4}, {1, 2, 3, 4})}, {Value({DType::f32, {1, 1, 4}})}, pool}, {{1, 5, 4, 0}});
  expectOutputs({"max_pool_grad",
                 {f32({1, 1, 4}, {1, 2, 4, 8}), make(DType::i32, {1, 1, 4}, {0, 2, 2, -1})},
                 {Value({DType::f32, {1, 1, 4}})}},
                {{1, 0, 6, 0}});
}

TEST(Plain, batchNormOfOneElementPerChannelIsItsBias) {
  expectOutputs({"batch_norm",
                 {f32({1, 2}, {5, 7}), f32({2}, {2, 2}), f32({2}, {1, -1})},
                 {Value({DType::f32, {1, 2}}), Value({DType::f32, {2}}), Value({DType::f32, {2}})},
                 {{"epsilon", 1e-5}}},
                {{1, -1}, {5, 7}, {0, 0}});
  expectOutputs({"moving_average",
                 {f32({2}, {1, 2}), f32({2}, {3, 4})},
                 {Value({DType::f32, {2}})},
                 {{"momentum", 0.75}, {"factor", 2.0}}},
                {{2.25, 3.5}});
}

TEST(Plain, specsThatDoNotFitAreRefused) {
  Attributes conv = with(with(windows({1}, {1}, {0}), "high", Ints{0}), "groups", int64_t{1});
  Call call{"conv", {f32({1, 1, 3}, {1, 2, 3}), f32({1, 1, 2}, {1, 1})}, {Value({DType::f32, {1, 1, 2}})}, conv};
  EXPECT_TRUE(run(call).ok());
  for (auto [key, value] : std::vector<std::pair<std::string, Attribute>>{{"strides", Ints{0}},
                                                                          {"strides", Ints{1, 1}},
                                                                          {"dilations", Ints{int64_t(1) << 40}},
                                                                          {"low", Ints{-(int64_t(1) << 40)}},
                                                                          {"high", Ints{7}},
                                                                          {"groups", int64_t{2}}}) {
    Call broken = call;
    broken.attributes[key] = value;
    EXPECT_FALSE(run(broken).ok()) << key;
    EXPECT_FALSE(run(broken, false).ok()) << key;
  }
  Call bad{"max_pool_grad", {f32({1, 1, 1}, {1}), make(DType::i32, {1, 1, 1}, {3})}, {Value({DType::f32, {1, 1, 3}})}};
  EXPECT_EQ(run(bad).error().code, Code::badInput);
  EXPECT_EQ(run(bad, false).error().code, Code::badInput);
}

//===-- fast ----------------------------------------------------------------===//

Value random(DType type, Ints dims, unsigned seed) { return uniform({type, std::move(dims)}, seed, -1, 1); }

void expectFastMatches(Call call, double tolerance) {
  std::string shapes = call.name;
  for (const Value &value : call.inputs) {
    shapes += " " + std::string(nameOf(value.type.dtype));
    for (int64_t d : value.type.dims)
      shapes += "," + std::to_string(d);
  }
  SCOPED_TRACE(shapes);
  Result<std::vector<Value>> expected = run(call, true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (int threads : {1, 3}) {
    call.threads = threads;
    Result<std::vector<Value>> fast = run(call, false), again = run(call, false);
    ASSERT_TRUE(fast.ok() && again.ok());
    for (size_t i = 0; i < fast->size(); ++i) {
      DType type = (*fast)[i].type.dtype;
      double bound = tolerance + (type == DType::bf16 ? 0x1p-7 : type == DType::f16 ? 0x1p-10 : 0);
      expectNear((*fast)[i], elements((*expected)[i]), bound);
      EXPECT_TRUE((*again)[i] == (*fast)[i]) << "output " << i << " differs from run to run";
    }
  }
}

struct ConvCase {
  Ints input, weight, output;
  Attributes attributes;
  bool bias = false;
};

std::vector<ConvCase> convCases() {
  auto conv = [](Ints strides, Ints dilations, Ints low, Ints high, int64_t groups) {
    return with(with(windows(std::move(strides), std::move(dilations), std::move(low)), "high", high), "groups",
                groups);
  };
  return {
      {{2, 3, 9, 11}, {5, 3, 3, 3}, {2, 5, 9, 11}, conv({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1), true},
      {{2, 16, 8, 8}, {32, 16, 3, 3}, {2, 32, 4, 4}, conv({2, 2}, {1, 1}, {1, 1}, {1, 1}, 1)},
      {{1, 32, 7, 7}, {16, 32, 1, 1}, {1, 16, 7, 7}, conv({1, 1}, {1, 1}, {0, 0}, {0, 0}, 1), true},
      {{2, 8, 12}, {8, 1, 3}, {2, 8, 10}, conv({1}, {2}, {1}, {1}, 8)},
      {{1, 4, 5, 6, 7}, {6, 2, 2, 3, 2}, {1, 6, 4, 6, 3}, conv({1, 1, 2}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}, 2), true},
      {{1, 3, 8, 8}, {4, 3, 2, 2}, {1, 4, 3, 4}, conv({2, 2}, {1, 1}, {-1, 0}, {0, 0}, 1), true},
      {{0, 3, 4, 4}, {4, 3, 1, 1}, {0, 4, 4, 4}, conv({1, 1}, {1, 1}, {0, 0}, {0, 0}, 1)}};
}

TEST(Fast, convolutions) {
  for (const ConvCase &test : convCases())
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      Call forward{"conv", {random(type, test.input, 1), random(type, test.weight, 2)}, {Value({type, test.output})}};
      forward.attributes = test.attributes;
      Call back{"conv_transpose", {random(type, test.output, 3), forward.inputs[1]}, {Value({type, test.input})}};
      back.attributes = with(test.attributes, "sizes", Ints(test.input.begin() + 2, test.input.end()));
      Call weight{"conv_weight_grad", {forward.inputs[0], back.inputs[0]}, {Value({type, test.weight})}};
      weight.attributes = with(test.attributes, "kernel", Ints(test.weight.begin() + 2, test.weight.end()));
      if (test.bias) {
        forward.inputs.push_back(random(type, {test.output[1]}, 4));
        back.inputs.push_back(random(type, {test.input[1]}, 5));
      }
      expectFastMatches(forward, 1e-5);
      expectFastMatches(back, 1e-5);
      expectFastMatches(weight, 2e-5);
    }
}

TEST(Fast, aConvolutionThatIsPlainLoopsSaysSo) {
  ConvCase cropped = convCases()[5], usual = convCases()[1];
  auto noteOf = [](const ConvCase &test, DType type) {
    Call call{"conv", {random(type, test.input, 1), random(type, test.weight, 2)}, {Value({type, test.output})}};
    call.attributes = test.attributes;
    auto kernel = registry(false).prepare(call.spec());
    return kernel.ok() ? (*kernel)->note() : kernel.error().message;
  };
  EXPECT_NE(noteOf(cropped, DType::f32).find("no negative padding"), std::string::npos);
  EXPECT_EQ(noteOf(usual, DType::f32), "");
  EXPECT_EQ(noteOf(usual, DType::f64), ""); // nothing else is to be expected
}

TEST(Fast, pools) {
  struct Row {
    Ints input, output, kernel;
    Attributes attributes;
  };
  for (const Row &row :
       {Row{{2, 3, 9}, {2, 3, 5}, {3}, windows({2}, {1}, {1})},
        Row{{3, 5, 17, 23}, {3, 5, 9, 12}, {3, 3}, windows({2, 2}, {1, 1}, {1, 1})},
        Row{{1, 2, 6, 5}, {1, 2, 3, 4}, {2, 2}, windows({2, 1}, {2, 1}, {1, 0})},
        Row{{2, 2, 4, 5, 6}, {2, 2, 2, 3, 4}, {2, 3, 1}, windows({2, 2, 2}, {1, 1, 1}, {0, 1, 0})},
        Row{{1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}, {2, 2, 2, 2}, windows({1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0})},
        Row{{0, 3, 4, 4}, {0, 3, 2, 2}, {2, 2}, windows({2, 2}, {1, 1}, {0, 0})}})
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      Attributes attributes = with(row.attributes, "kernel", row.kernel);
      Value x = random(type, row.input, 1), g = random(type, row.output, 2);
      Call max{"max_pool", {x}, {Value({type, row.output}), Value({DType::i32, row.output})}, attributes};
      expectFastMatches(max, 0);
      Value indices = (*run(max, true))[1];
      expectFastMatches({"max_pool_grad", {g, indices}, {Value({type, row.input})}}, 1e-6);
      expectFastMatches({"sum_pool", {x}, {Value({type, row.output})}, attributes}, 1e-6);
      expectFastMatches({"sum_pool_grad", {g}, {Value({type, row.input})}, attributes}, 1e-6);
    }
}

TEST(Fast, batchNorm) {
  for (const Ints &shape : {Ints{2, 3, 17}, Ints{4, 5, 8, 9}, Ints{1, 2, 300}, Ints{6, 4}, Ints{3, 0, 16}})
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      Value x = random(type, shape, 1), g = random(type, shape, 2), scale = random(type, {shape[1]}, 3),
            bias = random(type, {shape[1]}, 4), variance = uniform({type, {shape[1]}}, 5, 0.5, 2);
      Attributes epsilon = {{"epsilon", 1e-5}};
      Call norm{"batch_norm",
                {x, scale, bias},
                {x, Value({DType::f32, {shape[1]}}), Value({DType::f32, {shape[1]}})},
                epsilon};
      expectFastMatches(norm, 1e-5);
      std::vector<Value> statistics = *run(norm, true);
      expectFastMatches({"batch_norm_grad", {g, x, scale, statistics[1], statistics[2]}, {x, scale, scale}, epsilon},
                        1e-4);
      expectFastMatches({"batch_norm_apply", {x, scale, bias, bias, variance}, {x}, epsilon}, 1e-5);
    }
}

} // namespace
} // namespace zc::test
