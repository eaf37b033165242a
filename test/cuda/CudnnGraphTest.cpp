// What cuDNN takes on a GPU that is described and not there (devices/h200.json), and that it works in what is planned.
// Run by libraries.py.
#include "runtime/cuda/CudnnGraph.h"
#include "base/StridedView.h"
#include "runtime/cuda/Choices.h"
#include "test/cuda/PlanSpecs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace zc::test {
namespace {

using cuda::AttentionPass;
using cuda::buildAttentionGraph;
using cuda::CudnnAttention;
using cuda::Dims;

/// What describes the GPU: an H200, or that of devices/ which ZC_GPU names.
std::string gpu() {
  const char *other = std::getenv("ZC_GPU");
  const std::string path = std::string(ZC_SOURCE) + "/test/cuda/devices/" + (other ? other : "h200") + ".json";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << "no " << path;
  return text.str();
}

struct AttentionCase {
  int64_t batch, heads, keyHeads, rows, depth;
  bool causal = false;
  DType type = DType::bf16;
  TensorType mask = {}; ///< without dimensions: none
  int64_t window = 0;
};

/// [B, H, T, D] in rows of `width`, `before` of which are others'.
StridedView inRows(size_t tensor, const Dims &dims, int64_t before, int64_t width) {
  return {tensor, before, dims, {dims[2] * width, dims[3], width, 1}};
}

/// Queries, keys and values beside each other in one tensor, as a linear layer makes them, and gradients too, or each
/// in a tensor of its own.
KernelSpec specOf(const AttentionCase &c, AttentionPass pass, bool packed) {
  const Dims q = {c.batch, c.heads, c.rows, c.depth}, k = {c.batch, c.keyHeads, c.rows, c.depth};
  const int64_t ofQueries = c.heads * c.depth, ofKeys = c.keyHeads * c.depth, width = ofQueries + 2 * ofKeys;
  const TensorType lse{DType::f32, {c.batch, c.heads, c.rows}}, rows{c.type, {c.batch, c.rows, ofQueries}},
      all{c.type, {c.batch, c.rows, width}}, queries{c.type, q}, keys{c.type, k};
  KernelSpec spec;
  spec.attributes = {{"scale", 0.125}, {"causal", int64_t(c.causal)}, {"window", c.window}};
  std::vector<StridedView> views;
  auto take = [&](const TensorType &whole, const TensorType &alone, const StridedView &view) {
    spec.operands.push_back(packed ? whole : alone);
    views.push_back(view);
    views.back().tensor = spec.operands.size() - 1;
  };
  auto takeAlone = [&](const TensorType &type) { take(type, type, StridedView::whole(0, type.dims)); };
  auto takeAll = [&] {
    take(all, queries, inRows(0, q, 0, width));
    take(all, keys, inRows(0, k, ofQueries, width));
    take(all, keys, inRows(0, k, ofQueries + ofKeys, width));
  };
  const StridedView one = inRows(0, q, 0, ofQueries);
  const bool isGradient = pass == AttentionPass::gradient;
  spec.name = isGradient ? "attention_grad" : "attention";
  if (isGradient)
    take(rows, queries, one);
  takeAll();
  if (isGradient) {
    take(rows, queries, one);
    takeAlone(lse);
  }
  if (!c.mask.dims.empty())
    takeAlone(c.mask);
  spec.numInputs = spec.operands.size();
  if (!isGradient) {
    take(rows, queries, one);
    takeAlone(lse);
  } else {
    takeAll();
    if (packed) { // into one
      spec.operands.resize(spec.numInputs + 1);
      for (size_t i = spec.numInputs; i < views.size(); ++i)
        views[i].tensor = spec.numInputs;
    }
  }
  if (packed)
    spec.attributes["views"] = encode(views);
  return spec;
}

/// Both graphs are built, the gradient's for `calls` calls; of tensors by themselves and through views.
void expectTaken(const AttentionCase &c, int64_t calls = 1) {
  for (bool packed : {false, true})
    for (AttentionPass pass : {AttentionPass::forward, AttentionPass::gradient}) {
      SCOPED_TRACE(std::string(packed ? "packed " : "") + (pass == AttentionPass::forward ? "forward" : "gradient"));
      KernelSpec spec = specOf(c, pass, packed);
      auto cudnn = CudnnAttention::of(spec);
      ASSERT_TRUE(cudnn);
      ASSERT_EQ(cudnn->calls(), pass == AttentionPass::forward ? 1 : calls);
      auto graph = buildAttentionGraph(*cudnn, gpu());
      ASSERT_TRUE(graph.ok()) << graph.error().message;
      EXPECT_LE((*graph)->workspaceBytes(),
                pass == AttentionPass::forward ? 256 : CudnnAttention::gradBytes(cudnn->shape));
    }
}

TEST(AttentionGraph, isTakenOfGpt2) { expectTaken({4, 12, 12, 1024, 64, true}); }
TEST(AttentionGraph, isTakenInPartsOfManySamples) { expectTaken({16, 12, 12, 1024, 64, true}, 2); }
TEST(AttentionGraph, isTakenOfAnOddNumberOfHeads) { expectTaken({8, 25, 25, 1024, 64, true}, 2); }
TEST(AttentionGraph, isTakenInPartsOfHeadsOfASample) { expectTaken({3, 32, 32, 2048, 128, true}, 6); }
TEST(AttentionGraph, isTakenOfHeadsOf96) { expectTaken({1, 64, 64, 1024, 96, true}); }
TEST(AttentionGraph, isTakenOfGroupedHeads) { expectTaken({2, 32, 8, 2048, 128, true}, 4); }
TEST(AttentionGraph, isTakenOfRowsThatFillNoTile) { expectTaken({8, 12, 12, 197, 64}); }
TEST(AttentionGraph, isTakenOfSmallModels) { expectTaken({2, 4, 2, 17, 8, true, DType::f16}); }
TEST(AttentionGraph, isTakenWithAMaskPerSample) {
  expectTaken({4, 12, 12, 128, 64, false, DType::bf16, {DType::f32, {4, 1, 1, 128}}});
}
TEST(AttentionGraph, isTakenWithATableForAll) {
  expectTaken({2, 8, 8, 128, 64, false, DType::bf16, {DType::bf16, {1, 8, 128, 128}}});
}
TEST(AttentionGraph, isTakenOfWindows) {
  expectTaken({2, 32, 8, 2048, 128, true, DType::bf16, {}, 512}, 4); // before
  expectTaken({4, 12, 12, 1000, 64, false, DType::bf16, {}, 65});    // on either side
  expectTaken({4, 12, 12, 128, 64, false, DType::bf16, {DType::f32, {4, 1, 1, 128}}, 65});
  expectTaken({4, 12, 12, 128, 64, true, DType::bf16, {DType::f32, {4, 1, 1, 128}}}); // padding, causal
}
TEST(AttentionGraph, isTakenInPartsOfHeadsWithATable) {
  expectTaken({1, 64, 64, 2048, 64, false, DType::bf16, {DType::f32, {1, 64, 2048, 2048}}}, 4);
}

TEST(AttentionGraph, tellsWhatCudnnSays) {
  auto cudnn = CudnnAttention::of(specOf({1, 1, 1, 16, 8}, AttentionPass::forward, false));
  ASSERT_TRUE(cudnn);
  auto nowhere = buildAttentionGraph(*cudnn, "{}");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, Code::unsupported);
  cudnn->shape.depth = 7;
  for (size_t i : {0u, 1u, 2u, 3u})
    cudnn->tensors[i].dims[3] = 7;
  auto odd = buildAttentionGraph(*cudnn, gpu());
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, Code::unsupported);
  EXPECT_NE(odd.error().message.find("keys of 7 bf16: "), std::string::npos) << odd.error().message;
}

/// [N, C, in...] with [M, C / groups, kernel...]; padding, strides and dilation are the same along all dimensions.
struct ConvCase {
  const char *name;
  Dims input, weight;
  int64_t stride = 1, low = 0, high = 0, dilation = 1;
};
void PrintTo(const ConvCase &c, std::ostream *out) { *out << c.name; }

/// The three kernels of a convolution.
std::vector<KernelSpec> kernelsOf(const ConvCase &c, DType type, bool hasBias, bool channelsLast) {
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
  if (channelsLast)
    forward.attributes["channels_last"] = int64_t{1};
  KernelSpec input = forward, weight = forward;
  TensorType x{type, c.input}, w{type, c.weight}, y{type, output};
  if (channelsLast)
    for (TensorType *activation : {&x, &y})
      std::rotate(activation->dims.begin() + 1, activation->dims.begin() + 2, activation->dims.end());
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

struct Numbers {
  DType type;
  bool tf32 = false;
  std::string name() const { return std::string(tf32 ? "tf32" : nameOf(type)); }
};

struct Convolutions : testing::TestWithParam<std::tuple<ConvCase, Numbers, bool>> {};

TEST_P(Convolutions, areTaken) {
  auto [c, numbers, channelsLast] = GetParam();
  for (KernelSpec spec : kernelsOf(c, numbers.type, /*hasBias=*/c.stride == 2, channelsLast)) {
    SCOPED_TRACE(spec.name);
    spec.tf32 = numbers.tf32;
    std::optional<cuda::CudnnConv> conv = cuda::CudnnConv::of(spec);
    ASSERT_TRUE(conv);
    auto graph = cuda::buildConvGraph(*conv, gpu());
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
                     testing::Values(Numbers{DType::bf16}, Numbers{DType::f16}, Numbers{DType::f32},
                                     Numbers{DType::f32, true}),
                     testing::Bool()),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name() +
             (std::get<2>(info.param) ? "_last" : "");
    });

/// The engine that cuDNN took for `conv`, which nobody else asks for.
std::string engineOf(const cuda::CudnnConv &conv) {
  auto isKnown = [known = cuda::Choices::instance().all()](const LibraryChoice &choice) {
    return std::any_of(known.begin(), known.end(), [&](const LibraryChoice &k) { return k.asked == choice.asked; });
  };
  EXPECT_TRUE(cuda::buildConvGraph(conv, gpu()).ok());
  for (const LibraryChoice &choice : cuda::Choices::instance().all())
    if (!isKnown(choice))
      return choice.taken.substr(0, choice.taken.find(','));
  ADD_FAILURE() << "asked before";
  return {};
}

TEST(ConvolutionsInTf32, runOnOtherEngines) {
  const ConvCase block{"Block", {7, 64, 56, 56}, {64, 64, 3, 3}, 1, 1, 1};
  for (KernelSpec spec : kernelsOf(block, DType::f32, /*hasBias=*/false, /*channelsLast=*/true)) {
    SCOPED_TRACE(spec.name);
    std::set<std::string> engines;
    for (bool tf32 : {false, true}) {
      spec.tf32 = tf32;
      auto conv = cuda::CudnnConv::of(spec);
      ASSERT_TRUE(conv);
      engines.insert(engineOf(*conv));
    }
    EXPECT_EQ(engines.size(), 2u) << *engines.begin();
  }
}

/// What a GPU is saved as (zc-gpu-bench --shapes).
TEST(Description, isWrittenAsItIsRead) {
  auto once = cuda::describeForCudnn(gpu());
  ASSERT_TRUE(once.ok()) << once.error().message;
  EXPECT_NE(once->find("\"multiProcessorCount\""), std::string::npos) << *once;
  auto again = cuda::describeForCudnn(*once);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, *once);
  auto none = cuda::describeForCudnn("{}");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::unsupported);
}

using Graph = Result<std::unique_ptr<cuda::CudnnGraph>>;

/// Nothing for what cuDNN is not asked.
std::optional<Graph> graphOf(const KernelSpec &spec, const std::string &description) {
  if (auto attention = CudnnAttention::chosen(spec); attention && spec.name.rfind("attention", 0) == 0)
    return buildAttentionGraph(*attention, description);
  if (auto conv = cuda::CudnnConv::of(spec); conv && spec.name.rfind("conv", 0) == 0)
    return cuda::buildConvGraph(*conv, description);
  return std::nullopt;
}

/// Of the plans in the folder that ZC_PLANS names: libraries.py compiles those of all exports.
TEST(Plans, areTakenAsPlanned) {
  const char *folder = std::getenv("ZC_PLANS");
  if (!folder)
    GTEST_SKIP() << "ZC_PLANS names no folder";
  LibraryKernels kernels;
  std::set<std::string> plans;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".plan")
      plans.insert(entry.path());
  int graphs = 0;
  for (const std::string &plan : plans) {
    SCOPED_TRACE(plan);
    auto specs = kernels.add(plan);
    ASSERT_TRUE(specs.ok()) << specs.error().message;
    for (const KernelSpec &spec : *specs) {
      const std::optional<Graph> graph = graphOf(spec, gpu());
      if (!graph)
        continue;
      ++graphs;
      if (!graph->ok())
        ADD_FAILURE() << graph->error().message;
      else
        EXPECT_LE((**graph)->workspaceBytes(), spec.workspace) << spec.name;
    }
  }
  std::printf("%d graphs of %zu plans\n", graphs, plans.size());
  EXPECT_GT(graphs, 0);
}

} // namespace
} // namespace zc::test
