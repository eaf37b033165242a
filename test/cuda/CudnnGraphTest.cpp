// What cuDNN takes on a GPU that is described and not there (devices/h200.json), and that it works in what is planned.
// Run by libraries.py.
#include "runtime/cuda/CudnnGraph.h"
#include "kernels/cuda/CudnnAttention.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace zc::test {
namespace {

using cuda::AttentionPass;
using cuda::buildAttentionGraph;
using cuda::Dims;

std::string h200() {
  std::ifstream file(std::string(ZC_SOURCE) + "/test/cuda/devices/h200.json");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << "no test/cuda/devices/h200.json in " << ZC_SOURCE;
  return text.str();
}

cpu::AttentionShape shapeOf(int64_t batch, int64_t heads, int64_t keyHeads, int64_t rows, int64_t depth, bool causal) {
  cpu::AttentionShape s{};
  s.dtype = DType::bf16;
  s.stat = DType::f32;
  s.batch = batch;
  s.heads = heads;
  s.keyHeads = keyHeads;
  s.queries = s.keys = rows;
  s.depth = s.valueDepth = depth;
  s.scale = 0.125;
  s.causal = causal;
  return s;
}

/// A mask of `type` that is the same along the dimensions whose stride is 0.
cpu::AttentionShape masked(cpu::AttentionShape s, DType type, std::array<int64_t, 4> strides) {
  s.hasMask = true;
  s.mask = type;
  s.maskStrides = strides;
  return s;
}

/// Both graphs are built, as `calls` calls.
void expectTaken(const cpu::AttentionShape &whole, int64_t calls = 1) {
  cuda::CudnnAttention forward(whole, false), gradient(whole, true);
  ASSERT_EQ(forward.calls, 1);
  ASSERT_EQ(gradient.calls, calls);
  auto y = buildAttentionGraph(forward.shape, AttentionPass::forward, h200());
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_LE((*y)->workspaceBytes(), 256);
  auto dx = buildAttentionGraph(gradient.shape, AttentionPass::gradient, h200());
  ASSERT_TRUE(dx.ok()) << dx.error().message;
  EXPECT_LE((*dx)->workspaceBytes(), cuda::CudnnAttention::gradBytes(gradient.shape));
}

TEST(AttentionGraph, isTakenOfGpt2) { expectTaken(shapeOf(4, 12, 12, 1024, 64, true)); }
TEST(AttentionGraph, isTakenInPiecesOfManySamples) { expectTaken(shapeOf(16, 12, 12, 1024, 64, true), 2); }
TEST(AttentionGraph, isTakenOfGroupedHeads) { expectTaken(shapeOf(2, 32, 8, 2048, 128, true), 4); }
TEST(AttentionGraph, isTakenOfRowsThatFillNoTile) { expectTaken(shapeOf(8, 12, 12, 197, 64, false)); }
TEST(AttentionGraph, isTakenOfSmallModels) {
  cpu::AttentionShape s = shapeOf(2, 4, 2, 17, 8, true);
  s.dtype = DType::f16;
  expectTaken(s);
}
TEST(AttentionGraph, isTakenWithAMaskPerSample) {
  expectTaken(masked(shapeOf(4, 12, 12, 128, 64, false), DType::f32, {128, 0, 0, 1}));
}
TEST(AttentionGraph, isTakenWithATableForAll) {
  expectTaken(masked(shapeOf(2, 8, 8, 128, 64, false), DType::bf16, {0, 128 * 128, 128, 1}));
}

TEST(AttentionGraph, tellsWhatCudnnSays) {
  auto odd = buildAttentionGraph(shapeOf(1, 1, 1, 16, 7, false), AttentionPass::forward, h200());
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, Code::unsupported);
  EXPECT_NE(odd.error().message.find("keys of 7 bf16: "), std::string::npos) << odd.error().message;
  auto nowhere = buildAttentionGraph(shapeOf(1, 1, 1, 16, 8, false), AttentionPass::forward, "{}");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, Code::unsupported);
}

/// [N, C, in...] with [M, C / groups, kernel...]; padding, strides and dilation are the same along all dimensions.
struct ConvCase {
  const char *name;
  Dims input, weight;
  int64_t stride = 1, low = 0, high = 0, dilation = 1;
};
void PrintTo(const ConvCase &c, std::ostream *out) { *out << c.name; }

/// The three kernels of a convolution.
std::vector<KernelSpec> kernelsOf(const ConvCase &c, DType type, bool hasBias) {
  Dims output = {c.input[0], c.weight[0]};
  for (size_t d = 2; d < c.input.size(); ++d)
    output.push_back((c.input[d] + c.low + c.high - c.dilation * (c.weight[d] - 1) - 1) / c.stride + 1);
  const size_t rank = c.input.size() - 2;
  auto same = [&](int64_t value) { return std::vector<int64_t>(rank, value); };
  KernelSpec forward;
  forward.attributes = {{"strides", same(c.stride)},
                        {"dilations", same(c.dilation)},
                        {"low", same(c.low)},
                        {"high", same(c.high)},
                        {"groups", c.input[1] / c.weight[1]}};
  KernelSpec input = forward, weight = forward;
  TensorType x{type, c.input}, w{type, c.weight}, y{type, output};
  forward.name = "conv";
  forward.operands = {x, w, y};
  forward.numInputs = 2;
  if (hasBias) {
    forward.operands.insert(forward.operands.begin() + 2, {type, {c.weight[0]}});
    forward.numInputs = 3;
  }
  input.name = "conv_transpose";
  input.operands = {y, w, x};
  input.numInputs = 2;
  weight.name = "conv_weight_grad";
  weight.operands = {x, y, w};
  weight.numInputs = 2;
  return {forward, input, weight};
}

struct Convolutions : testing::TestWithParam<std::tuple<ConvCase, DType>> {};

TEST_P(Convolutions, areTaken) {
  auto [c, type] = GetParam();
  for (const KernelSpec &spec : kernelsOf(c, type, /*hasBias=*/c.stride == 2)) {
    SCOPED_TRACE(spec.name);
    std::optional<cuda::CudnnConv> conv = cuda::CudnnConv::of(spec);
    ASSERT_TRUE(conv);
    auto graph = cuda::buildConvGraph(*conv, h200());
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    EXPECT_LE((*graph)->workspaceBytes(), conv->workspaceBytes());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Convolutions,
    testing::Combine(testing::Values(ConvCase{"ResNetStem", {8, 3, 224, 224}, {64, 3, 7, 7}, 2, 3, 3},
                                     ConvCase{"ResNetBlock", {8, 64, 56, 56}, {64, 64, 3, 3}, 1, 1, 1},
                                     ConvCase{"ResNetPoint", {8, 256, 56, 56}, {512, 256, 1, 1}, 2},
                                     ConvCase{"ResNetLast", {8, 512, 7, 7}, {512, 512, 3, 3}, 1, 1, 1},
                                     ConvCase{"MobileNetDepthwise", {8, 96, 112, 112}, {96, 1, 3, 3}, 2, 1, 1},
                                     ConvCase{"ConvNeXtDepthwise", {8, 96, 56, 56}, {96, 1, 7, 7}, 1, 3, 3},
                                     ConvCase{"ResNeXtGroups", {8, 128, 56, 56}, {128, 4, 3, 3}, 1, 1, 1},
                                     ConvCase{"ViTPatches", {8, 3, 224, 224}, {768, 3, 16, 16}, 16},
                                     ConvCase{"Dilated", {2, 32, 33, 33}, {16, 32, 3, 3}, 1, 2, 2, 2},
                                     ConvCase{"PaddedOnOneSide", {2, 8, 15, 15}, {16, 8, 3, 3}, 2, 0, 1},
                                     ConvCase{"Rows", {4, 512, 399}, {512, 512, 3}, 2},
                                     ConvCase{"Volumes", {2, 16, 9, 12, 12}, {8, 16, 3, 3, 3}, 1, 1, 1},
                                     ConvCase{"Small", {1, 1, 5, 5}, {3, 1, 2, 2}}),
                     testing::Values(DType::bf16, DType::f16, DType::f32)),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).name) + "_" + std::string(nameOf(std::get<1>(info.param)));
    });

} // namespace
} // namespace zc::test
