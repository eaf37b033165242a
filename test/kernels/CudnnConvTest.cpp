// Which convolutions are asked of cuDNN, and in how many bytes: known without it.
#include "kernels/cuda/CudnnConv.h"
#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

using cuda::ConvPass;
using cuda::CudnnConv;

/// [N, C, in...] with a weight into a result, unpadded; what `change` makes of it.
KernelSpec convSpec(DType type, Ints input, Ints weight, Ints output) {
  const std::vector<int64_t> ones(input.size() - 2, 1), zeros(input.size() - 2, 0);
  KernelSpec spec;
  spec.name = "conv";
  spec.operands = {{type, input}, {type, weight}, {type, output}};
  spec.numInputs = 2;
  spec.attributes = {{"strides", ones}, {"dilations", ones}, {"low", zeros}, {"high", zeros}, {"groups", int64_t{1}}};
  return spec;
}

TEST(CudnnConv, hasAPlanForEveryPass) {
  KernelSpec spec = convSpec(DType::bf16, {8, 64, 56, 56}, {32, 64, 3, 3}, {8, 32, 54, 54});
  const int64_t x = 2 * 8 * 64 * 56 * 56, w = 2 * 32 * 64 * 9, y = 2 * 8 * 32 * 54 * 54; // multiples of 256
  auto conv = CudnnConv::of(spec);
  ASSERT_TRUE(conv);
  EXPECT_EQ(conv->pass, ConvPass::output);
  EXPECT_EQ(conv->workspaceBytes(), x + w + y + 256);
  EXPECT_EQ(workspaceBytes(spec, Target::cuda), x + w + y + 256);
  KernelSpec back = spec;
  back.name = "conv_transpose";
  std::swap(back.operands[0], back.operands[2]);
  conv = CudnnConv::of(back);
  ASSERT_TRUE(conv);
  EXPECT_EQ(conv->pass, ConvPass::input);
  EXPECT_EQ(conv->input(), spec.operands[0].dims);
  KernelSpec weight = spec;
  weight.name = "conv_weight_grad";
  std::swap(weight.operands[1], weight.operands[2]);
  conv = CudnnConv::of(weight);
  ASSERT_TRUE(conv);
  EXPECT_EQ(conv->pass, ConvPass::weight);
  EXPECT_EQ(conv->workspaceBytes(), x + w + y + 256 + 32 * 2 * w); // 32 partial sums in fp32
}

TEST(CudnnConv, bordersPartialSums) {
  KernelSpec spec = convSpec(DType::f32, {8, 512, 7, 7}, {8, 512, 5, 5}, {512, 512, 3, 3});
  spec.name = "conv_weight_grad";
  auto conv = CudnnConv::of(spec);
  ASSERT_TRUE(conv);
  const int64_t tensors = 4 * (8 * 512 * 49 + 8 * 512 * 25 + 512 * 512 * 9);
  EXPECT_EQ(conv->workspaceBytes(), tensors + 256 + (int64_t{32} << 20));
}

TEST(CudnnConv, takesRowsAsPlanes) {
  auto conv = CudnnConv::of(convSpec(DType::f16, {2, 3, 9}, {4, 3, 2}, {2, 4, 8}));
  ASSERT_TRUE(conv);
  EXPECT_EQ(conv->input(), (Ints{2, 3, 1, 9}));
  EXPECT_EQ(conv->weight(), (Ints{4, 3, 1, 2}));
  EXPECT_EQ(conv->output(), (Ints{2, 4, 1, 8}));
  EXPECT_EQ(conv->shape.windows.low, (Ints{0, 0}));
  EXPECT_EQ(conv->shape.high, (Ints{0, 0}));
}

TEST(CudnnConv, isNotForAll) {
  auto taken = [](const KernelSpec &spec) { return CudnnConv::of(spec).has_value(); };
  EXPECT_TRUE(taken(convSpec(DType::f32, {2, 3, 5, 5, 5}, {4, 3, 2, 2, 2}, {2, 4, 4, 4, 4})));
  EXPECT_FALSE(taken(convSpec(DType::f64, {2, 3, 5, 5}, {4, 3, 2, 2}, {2, 4, 4, 4})));
  EXPECT_FALSE(taken(convSpec(DType::f32, {0, 3, 5, 5}, {4, 3, 2, 2}, {0, 4, 4, 4})));
  EXPECT_FALSE(taken(convSpec(DType::f32, {2, 3, 3, 3, 3, 3}, {4, 3, 2, 2, 2, 2}, {2, 4, 2, 2, 2, 2})));
  KernelSpec cut = convSpec(DType::f32, {2, 3, 5, 5}, {4, 3, 2, 2}, {2, 4, 4, 3});
  cut.attributes["high"] = std::vector<int64_t>{0, -1};
  ASSERT_TRUE(shapes::readConv(cut).ok());
  EXPECT_FALSE(taken(cut));
  EXPECT_FALSE(taken(convSpec(DType::f32, {2, 3, 5, 5}, {4, 3, 2, 2}, {2, 4, 5, 5}))); // no convolution at all
}

} // namespace
} // namespace zc::test
