// What cuDNN takes on a GPU that is described and not there (devices/h200.json), and that it works in what is planned.
// Run by cudnn.py.
#include "runtime/cuda/AttentionGraph.h"
#include "kernels/cuda/CudnnAttention.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace zc::test {
namespace {

using cuda::AttentionGraph;
using cuda::AttentionPass;

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
  auto y = AttentionGraph::build(forward.shape, AttentionPass::forward, h200());
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_LE((*y)->workspaceBytes(), 256);
  auto dx = AttentionGraph::build(gradient.shape, AttentionPass::gradient, h200());
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
  auto odd = AttentionGraph::build(shapeOf(1, 1, 1, 16, 7, false), AttentionPass::forward, h200());
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, Code::unsupported);
  EXPECT_NE(odd.error().message.find("keys of 7 bf16: "), std::string::npos) << odd.error().message;
  auto nowhere = AttentionGraph::build(shapeOf(1, 1, 1, 16, 8, false), AttentionPass::forward, "{}");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, Code::unsupported);
}

} // namespace
} // namespace zc::test
