// Convolutions, pools and batch norm: corners of the plain kernels (the rest is compared with ONNX's own examples and
// by finite differences), and each fast kernel against its plain version.
#include "kernels/FusedProgram.h"
#include "kernels/Workspace.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "test/kernels/ChannelsLast.h"

namespace zc::test {
namespace {

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

//===-- channels last -------------------------------------------------------===//

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
      {{0, 3, 4, 4}, {4, 3, 1, 1}, {0, 4, 4, 4}, conv({1, 1}, {1, 1}, {0, 0}, {0, 0}, 1)},
      // depthwise: whole and cut vectors of channels, filters wider than what they slide over, taps by sevens and less
      {{2, 44, 9, 11}, {44, 1, 7, 7}, {2, 44, 9, 11}, conv({1, 1}, {1, 1}, {3, 3}, {3, 3}, 44)},
      {{2, 150, 8, 7}, {150, 1, 3, 3}, {2, 150, 4, 4}, conv({2, 2}, {1, 1}, {1, 1}, {1, 1}, 150)},
      {{1, 16, 6, 20}, {16, 1, 2, 9}, {1, 16, 7, 11}, conv({1, 2}, {2, 1}, {2, 5}, {1, 5}, 16)},
      {{2, 8, 3, 2}, {8, 1, 5, 5}, {2, 8, 3, 2}, conv({1, 1}, {1, 1}, {2, 2}, {2, 2}, 8)},
      // a point, of tiles of channels, a different number each way
      {{2, 48, 6, 6}, {64, 48, 1, 1}, {2, 64, 6, 6}, conv({1, 1}, {1, 1}, {0, 0}, {0, 0}, 1), true},
      // and with a weight that is larger than both activations
      {{2, 40, 3}, {72, 40, 1}, {2, 72, 3}, conv({1}, {1}, {0}, {0}, 1), true},
      {{3, 96, 1, 1}, {20, 96, 1, 1}, {3, 20, 1, 1}, conv({1, 1}, {1, 1}, {0, 0}, {0, 0}, 1), true},
      {{2, 24, 2, 2}, {48, 24, 1, 1}, {2, 48, 1, 1}, conv({2, 2}, {1, 1}, {0, 0}, {0, 0}, 1)},
      // windows larger than the image
      {{3, 21, 2, 2}, {37, 21, 3, 3}, {3, 37, 2, 2}, conv({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1), true},
      {{5, 40, 3}, {9, 40, 5}, {5, 9, 2}, conv({2}, {1}, {2}, {2}, 1)},
      {{2, 6, 2, 9}, {8, 6, 3, 5}, {2, 8, 2, 7}, conv({1, 1}, {1, 2}, {1, 3}, {1, 3}, 1)},
      {{2, 32, 2, 2}, {32, 16, 3, 3}, {2, 32, 2, 2}, conv({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2)},
      // volumes of which windows see little else than padding
      {{1, 16, 3, 3, 3}, {16, 16, 3, 3, 3}, {1, 16, 2, 2, 2}, conv({2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1)},
      {{1, 16, 4, 4, 4}, {8, 16, 4, 4, 4}, {1, 8, 2, 2, 2}, conv({2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1)},
      // images that are narrower than a stride
      {{2, 64, 1, 1}, {64, 64, 3, 3}, {2, 64, 1, 1}, conv({2, 2}, {1, 1}, {1, 1}, {1, 1}, 1)},
      {{2, 16, 5, 2}, {24, 16, 3, 3}, {2, 24, 2, 1}, conv({3, 3}, {1, 1}, {1, 1}, {1, 1}, 1)},
      {{2, 32, 2}, {16, 32, 3}, {2, 16, 1}, conv({4}, {1}, {1}, {1}, 1)}};
}

TEST(Fast, convolutions) {
  int keeping = 0;
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
      expectSameChannelsLast(forward, {0, forward.inputs.size()}, 1e-5);
      expectSameChannelsLast(back, {0, back.inputs.size()}, 1e-5);
      expectSameChannelsLast(weight, {0, 1}, 2e-5);
      keeping += keepsItsWeight(forward) + keepsItsWeight(back);
      for (Call *call : {&forward, &back}) {
        call->attributes["channels_last"] = kOne;
        call->inputs[0] = channelsLast(call->inputs[0]);
        call->outputs[0] = channelsLast(call->outputs[0]);
        keeping += keepsItsWeight(*call);
      }
    }
  EXPECT_TRUE(keeping > 40 || !cpu::hasAvx512()) << keeping; // nearly all that oneDNN computes
}

/// The gradient of a weight whose windows are larger than the image.
Call smallImageGrad(DType type, int64_t images, int64_t in, int64_t out) {
  Call call{"conv_weight_grad",
            {random(type, {images, 2, 2, in}, 1), random(type, {images, 1, 1, out}, 2)},
            {Value({type, {out, in, 3, 3}})}};
  call.attributes = with(with(windows({2, 2}, {1, 1}, {1, 1}), "high", Ints{1, 1}), "groups", int64_t{1});
  call.attributes["kernel"] = Ints{3, 3};
  call.attributes["channels_last"] = kOne;
  return call;
}

TEST(Fast, gradientsOfFiltersLargerThanTheImageAreOneProduct) {
  auto methodOf = [](const Call &call) {
    auto prepared = registry(false).prepare(call.spec());
    return prepared.ok() ? (*prepared)->method() : prepared.error().message;
  };
  const std::string product = "as a product of columns";
  const Call large = smallImageGrad(DType::f32, 8, 256, 128);
  EXPECT_EQ(methodOf(large), product);
  EXPECT_EQ(methodOf(smallImageGrad(DType::f32, 8, 16, 16)) == product, !cpu::hasAvx512());
  EXPECT_EQ(methodOf(smallImageGrad(DType::f32, 129, 256, 128)) == product, !cpu::hasAvx512());
  EXPECT_NE(methodOf(smallImageGrad(DType::f32, 4097, 8, 8)), product); // one sum of all
  expectFastMatches(large, 2e-5, Bits::always);
  for (DType type : {DType::bf16, DType::f16})
    expectFastMatches(smallImageGrad(type, 9, 230, 150), 2e-5, Bits::always);
  // No larger than what it is made of: factors and sums, and not all that oneDNN may ask for.
  EXPECT_LT(workspaceBytes(large.spec(), Target::cpu), int64_t{1} << 20);
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

TEST(Fast, convolutionsOfOnePointAreProductsBeforeAvx512) {
  auto methodOf = [](const char *kernel, Ints input, Ints weight, Ints output, int64_t stride, bool isLast) {
    Call call{kernel, {random(DType::f32, input, 1), random(DType::f32, weight, 2)}, {Value({DType::f32, output})}};
    call.attributes = with(with(windows({stride, stride}, {1, 1}, {0, 0}), "high", Ints{0, 0}), "groups", int64_t{1});
    if (isLast)
      call.attributes["channels_last"] = int64_t{1};
    if (call.name == "conv_weight_grad")
      call.attributes["kernel"] = Ints{1, 1};
    auto prepared = registry(false).prepare(call.spec());
    return prepared.ok() ? (*prepared)->method() : prepared.error().message;
  };
  const Ints few{2, 3, 3, 16}, many{2, 9, 9, 16}, weight{32, 16, 1, 1};
  auto isProduct = [&](const std::string &method) { return method.rfind("as a product: ", 0) == 0; };
  const bool isOlder = !cpu::hasAvx512();
  EXPECT_EQ(isProduct(methodOf("conv_weight_grad", many, {2, 9, 9, 32}, weight, 1, true)), isOlder);
  EXPECT_EQ(isProduct(methodOf("conv", few, weight, {2, 3, 3, 32}, 1, true)), isOlder);
  EXPECT_FALSE(isProduct(methodOf("conv", many, weight, {2, 9, 9, 32}, 1, true))); // places are more than channels
  EXPECT_FALSE(isProduct(methodOf("conv", few, weight, {2, 2, 2, 32}, 2, true)));  // not each place
  EXPECT_FALSE(isProduct(methodOf("conv", {2, 16, 3, 3}, weight, {2, 32, 3, 3}, 1, false))); // a column is no channel
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
      Value indices = must(run(max, true))[1];
      Call maxGrad{"max_pool_grad", {g, indices}, {Value({type, row.input})}};
      Call sum{"sum_pool", {x}, {Value({type, row.output})}, attributes};
      Call sumGrad{"sum_pool_grad", {g}, {Value({type, row.input})}, attributes};
      for (const Call &call : {maxGrad, sum, sumGrad})
        expectFastMatches(call, 1e-6);
      if (type == DType::f16)
        continue; // computed as bf16 is
      expectSameChannelsLast(max, {0, 1, 2}, 0, true);
      expectSameChannelsLast(maxGrad, {0, 1, 2}, 1e-6);
      expectSameChannelsLast(sum, {0, 1}, 1e-6);
      expectSameChannelsLast(sumGrad, {0, 1}, 1e-6);
    }
}

/// As a crafted plan may have it, since it needs no workspace: all taps in a table would be 48 GiB.
TEST(Fast, aWindowAsWideAsCanBeOfAPoolWithoutWindowsTakesNoMemory) {
  const Attributes wide = with(windows({1}, {1}, {0}), "kernel", Ints{(int64_t(1) << 31) - 1});
  const Value x = f32({1, 1, 2}, {1, 2}), none({DType::f32, {1, 1, 0}});
  EXPECT_TRUE(run({"sum_pool", {x}, {none}, wide}, false).ok());
  EXPECT_TRUE(run({"max_pool", {x}, {none, Value({DType::i32, {1, 1, 0}})}, wide}, false).ok());
  Result<std::vector<Value>> grad = run({"sum_pool_grad", {none}, {x}, wide}, false);
  ASSERT_TRUE(grad.ok()) << grad.error().message;
  expectNear((*grad)[0], {0, 0}, 0);
}

TEST(Fast, batchNorm) {
  for (const Ints &shape :
       {Ints{2, 3, 17}, Ints{4, 5, 8, 9}, Ints{1, 2, 300}, Ints{6, 4}, Ints{130, 70}, Ints{3, 0, 16}})
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      Value x = random(type, shape, 1), g = random(type, shape, 2), scale = random(type, {shape[1]}, 3),
            bias = random(type, {shape[1]}, 4), variance = uniform({type, {shape[1]}}, 5, 0.5, 2);
      Attributes epsilon = {{"epsilon", 1e-5}};
      Call norm{"batch_norm",
                {x, scale, bias},
                {x, Value({DType::f32, {shape[1]}}), Value({DType::f32, {shape[1]}})},
                epsilon};
      expectFastMatches(norm, 1e-5);
      std::vector<Value> statistics = must(run(norm, true));
      Call grad{"batch_norm_grad", {g, x, scale, statistics[1], statistics[2]}, {x, scale, scale}, epsilon};
      Call apply{"batch_norm_apply", {x, scale, bias, bias, variance}, {x}, epsilon};
      expectFastMatches(grad, 1e-4);
      expectFastMatches(apply, 1e-5);
      if (shape.size() < 3)
        continue;
      expectSameChannelsLast(norm, {0, 3}, 1e-5);
      expectSameChannelsLast(grad, {0, 1, 5}, 1e-4);
      expectSameChannelsLast(apply, {0, 5}, 1e-5);
    }
}

/// Sums are cut by the shape: bits do not depend on threads. A mean far from zero costs no digits of the variance.
TEST(Fast, batchNormChannelsLastIsThatOfAnyNumberOfThreads) {
  Value x = uniform({DType::f32, {3, 40, 41, 70}}, 1, 999, 1001), g = random(DType::f32, x.type.dims, 2),
        scale = random(DType::f32, {70}, 3), bias = random(DType::f32, {70}, 4), statistics(scale.type);
  Attributes attributes = {{"epsilon", 1e-5}, {"channels_last", int64_t{1}}};
  Call norm{"batch_norm", {x, scale, bias}, {x, statistics, statistics}, attributes};
  std::vector<Value> one = must(run(norm, false)), plain = must(run(norm, true));
  expectNear(one[2], elements(plain[2]), 1e-5);
  Call grad{"batch_norm_grad", {g, x, scale, one[1], one[2]}, {x, scale, scale}, attributes};
  std::vector<Value> oneGrad = must(run(grad, false));
  for (int threads : {2, 3, 7}) {
    norm.threads = grad.threads = threads;
    EXPECT_TRUE(must(run(norm, false)) == one) << threads;
    EXPECT_TRUE(must(run(grad, false)) == oneGrad) << threads;
  }
}

/// Sums and element-wise work have the bits of the whole, on any number of threads.
TEST(Fast, batchNormApart) {
  for (const Ints &shape : {Ints{2, 17, 3}, Ints{4, 8, 9, 5}, Ints{3, 40, 41, 70}, Ints{2, 3, 700}, Ints{0, 3, 16}})
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      const Ints channels{shape.back()};
      const Value of(TensorType{DType::f32, channels});
      Value x = random(type, shape, 1), g = random(type, shape, 2), scale = random(type, channels, 3),
            bias = random(type, channels, 4);
      const Attributes attributes = {{"epsilon", 1e-5}, {"channels_last", int64_t{1}}};
      Call norm{"batch_norm", {x, scale, bias}, {x, of, of}, attributes};
      Call sums{"batch_norm_statistics", {x, scale, bias}, {of, of, of, of}, attributes};
      const std::vector<Value> whole = must(run(norm, false));
      Call grad{"batch_norm_grad", {g, x, scale, whole[1], whole[2]}, {x, scale, scale}, attributes};
      Call gradSums{"batch_norm_grad_sums", {g, x, scale, whole[1], whole[2]}, {scale, scale, of, of, of}, attributes};
      expectFastMatches(sums, 1e-4, Bits::always);
      expectFastMatches(gradSums, 1e-4, Bits::always);
      for (const KernelRegistry *kernels : {&registry(false), &blockRegistry()}) {
        const std::vector<Value> y = must(runOn(*kernels, norm)), apart = must(runOn(*kernels, sums));
        EXPECT_TRUE(apart[0] == y[1] && apart[1] == y[2]);
        EXPECT_TRUE(affine(x, apart[0], apart[2], apart[3], *kernels) == y[0]);
        const std::vector<Value> d = must(runOn(*kernels, grad)), gradApart = must(runOn(*kernels, gradSums));
        EXPECT_TRUE(gradApart[0] == d[1] && gradApart[1] == d[2]);
      }
    }
}

/// A gradient that a program computes has the bits of one in memory: relu's, of g and of what the relu gave.
TEST(Fast, batchNormGradSumsOfAProgram) {
  for (const Ints &shape : {Ints{2, 17, 3}, Ints{3, 40, 41, 70}, Ints{2, 3, 700}, Ints{0, 3, 16}})
    for (DType type : {DType::f32, DType::bf16, DType::f16})
      for (const KernelRegistry *kernels : {&registry(true), &registry(false), &blockRegistry()}) {
        const bool isBlocks = kernels == &blockRegistry();
        const Ints channels{shape.back()};
        const Value of(TensorType{DType::f32, channels});
        Value x = random(type, shape, 1), g = random(type, shape, 2), y = random(type, shape, 3),
              scale = random(type, channels, 4), mean = random(DType::f32, channels, 5),
              variance = random(DType::f32, channels, 6, 0.5, 2), factor = random(type, channels, 7);
        FusedProgram program{{type, type, type},
                             {{FusedCode::constant, type, {}, 0},
                              {FusedCode::less, DType::boolean, {3, 1}},
                              {FusedCode::select, type, {4, 0, 3}},
                              {FusedCode::mul, type, {5, 2}}},
                             {6}};
        Call apart{"fused", {g, y, factor}, {x}, {{"program", encode(program)}}};
        const Attributes attributes = {{"epsilon", 1e-5}, {"channels_last", int64_t{1}}};
        Call sums{"batch_norm_grad_sums", {}, {scale, scale, of, of, of}, attributes};
        Call together = sums;
        sums.inputs = {must(runOn(isBlocks ? registry(true) : *kernels, apart))[0], x, scale, mean, variance};
        together.inputs = {g, y, factor, x, scale, mean, variance};
        together.attributes["program"] = encode(program);
        const std::vector<Value> expected = must(runOn(*kernels, sums));
        for (int threads : {1, 2, 3, 40}) {
          together.threads = threads;
          Result<std::vector<Value>> results = runOn(*kernels, together);
          ASSERT_TRUE(results.ok()) << results.error().message;
          EXPECT_TRUE(*results == expected) << threads << " threads" << (isBlocks ? ", blocks" : "");
        }
      }
}

TEST(Fast, programsThatAKernelCannotHave) {
  const Value x({DType::f32, {2, 4, 3}}), c({DType::f32, {3}});
  const Attributes attributes = {{"epsilon", 1e-5}, {"channels_last", int64_t{1}}};
  const Ints twice{1, 4, 0, 0, 0, 0, 1};
  auto number = [&](std::vector<Value> inputs, Ints program, const char *kernel = "batch_norm_grad_sums") {
    Call call{kernel, std::move(inputs), {c, c, c, c, c}, attributes};
    call.attributes["program"] = std::move(program);
    Status plain = registry(true).prepare(call.spec()).status(), fast = registry(false).prepare(call.spec()).status();
    EXPECT_EQ(plain.ok(), fast.ok());
    return fast.ok() ? 0 : fast.error().number;
  };
  EXPECT_EQ(number({x, x, c, c, c}, twice), 0);
  EXPECT_EQ(number({x, x, c, c, c}, twice, "batch_norm_grad"), 715);
  EXPECT_EQ(number({x, c, c, c}, twice), 715); // no input is left for the program
  EXPECT_EQ(number({x, x, c, c, c}, {1, 4, 0, 0, 5, 0, 1}), 715);
  EXPECT_EQ(number({x, x, c, c, c}, {1, 4, 0, 0, 0, 0, 1, 1}), 715); // a second result
  EXPECT_EQ(number({Value({DType::i64, {2, 4, 3}}), x, c, c, c}, twice), 715);
  EXPECT_EQ(number({x, Value({DType::f32, {2, 5, 3}}), x, c, c, c}, {1, 4, 0, 0, 1, 0, 2}), 715); // no one shape
  EXPECT_EQ(number({c, x, c, c, c}, twice), 703);                                                 // of another shape
  EXPECT_EQ(number({x, x, c, c, c}, {1, 2, 1, 0, 0, 1}), 703);                                    // of another type
  std::vector<Value> many(17, x);
  many.insert(many.end(), {x, c, c, c});
  EXPECT_EQ(number(many, twice), 715);
}

// bf16: before AVX-512 oneDNN has none of 16 bits, and copies in fp32 are nothing to note.
// With AVX2 oneDNN multiplies matrices then, in four copies of the weights.
TEST(Fast, aWeightGradientOfImagesSmallerThanWindowsIsNoPlainLoop) {
  Call weight{"conv_weight_grad",
              {Value({DType::f32, {2, 512, 2, 2}}), Value({DType::f32, {2, 512, 2, 2}})},
              {Value({DType::f32, {512, 512, 3, 3}})}};
  weight.attributes = with(convCases()[0].attributes, "kernel", Ints{3, 3});
  auto kernel = registry(false).prepare(weight.spec());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ((*kernel)->note(), "");
}

/// With AVX2 that is a product of matrices. Of a smaller workspace, oneDNN's next kernel is asked for, and then none.
TEST(Fast, aWeightGradientOfDilatedWindowsIsNoPlainLoop) {
  const TensorType image{DType::f32, {2, 1024, 7, 7}};
  Call weight{"conv_weight_grad", {Value(image), Value(image)}, {Value({DType::f32, {1024, 1024, 3, 3}})}};
  weight.attributes = with(with(windows({1, 1}, {2, 2}, {2, 2}), "high", Ints{2, 2}), "kernel", Ints{3, 3});
  auto kernel = registry(false).prepare(weight.spec());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ((*kernel)->note(), "");
}

// bf16's depends on the CPU.
TEST(Fast, aConvolutionSaysThatItIsWidened) {
  const ConvCase usual = convCases()[1];
  for (auto [type, method] : {std::pair(DType::f32, ""), std::pair(DType::f16, "oneDNN on copies in fp32")}) {
    Call call{"conv", {random(type, usual.input, 1), random(type, usual.weight, 2)}, {Value({type, usual.output})}};
    call.attributes = usual.attributes;
    EXPECT_EQ(must(registry(false).prepare(call.spec()))->method(), method);
  }
}

TEST(Fast, aConvolutionOfEitherLayoutHasNothingToNote) {
  ConvCase usual = convCases()[1];
  for (DType type : {DType::f32, DType::bf16}) {
    Call first{"conv", {random(type, usual.input, 1), random(type, usual.weight, 2)}, {Value({type, usual.output})}};
    first.attributes = usual.attributes;
    Call last{"conv", {channelsLast(first.inputs[0]), first.inputs[1]}, {channelsLast(first.outputs[0])}};
    last.attributes = with(usual.attributes, "channels_last", int64_t{1});
    for (const Call &call : {first, last}) {
      auto kernel = registry(false).prepare(call.spec());
      ASSERT_TRUE(kernel.ok()) << kernel.error().message;
      EXPECT_EQ((*kernel)->note(), "");
    }
  }
}

} // namespace
} // namespace zc::test
