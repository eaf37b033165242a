#include "kernels/cuda/Implementations.h"
#include "kernels/Prologue.h"
#include "kernels/cuda/CudnnAttention.h"
#include "kernels/cuda/CudnnConv.h"
#include "kernels/cuda/GroupNormCut.h"
#include "kernels/cuda/Workspace.h"
#include "kernels/formula/Elements.h"
#include "kernels/formula/Elementwise.h"
#include "kernels/shapes/IndexShapes.h"
#include "kernels/shapes/LinearParts.h"

#include <iterator>
#include <sstream>

namespace zc::cuda {

namespace {

//===-- libraries ---------------------------------------------------------===//

struct Library {
  std::string_view name;
  bool (*takes)(const KernelSpec &);
};

/// Products, of all floats.
constexpr Library kProducts = {"cuBLASLt",
                               [](const KernelSpec &spec) { return formula::isFloat(spec.operands[0].dtype); }};
constexpr Library kAttention = {"cuDNN",
                                [](const KernelSpec &spec) { return CudnnAttention::chosen(spec).has_value(); }};
constexpr Library kConv = {"cuDNN", [](const KernelSpec &spec) { return CudnnConv::of(spec).has_value(); }};
/// A program's source, compiled while a plan is prepared.
constexpr Library kPrograms = {"NVRTC", [](const KernelSpec &spec) { return spec.has("program"); }};

//===-- workspace: the larger of what a library and our own kernel need ------===//

using shapes::bytesOf;

/// Of pairs of 32-bit numbers, one for each element of the operand.
template <auto read, size_t operand> int64_t ofPairs(const KernelSpec &spec) {
  return read(spec).ok() ? pairsBytes(spec.operands[operand].numElements()) : 0;
}

int64_t reduceBytes(const shapes::ReduceShape &s) { return ReduceCut(s).bytes(); }
int64_t headBytes(const shapes::HeadShape &s) { return HeadSpace(s).bytes(s); }
template <int64_t sums> int64_t ofNormGrad(const shapes::NormShape &s) { return normGradBytes(s, sums); }

int64_t productBytes(const shapes::MatmulShape &s) { return matmulBytes(s.numBatches * s.m * s.n); }
int64_t matrixBytes(const shapes::MatmulShape &s) { return matmulBytes(s.m * s.n); }
int64_t partBytes(const shapes::MatmulPartShape &s) { return matrixBytes(s.product); }
int64_t linearBytes(const shapes::LinearParts &parts) {
  return bytesOf<shapes::readMatmul, matrixBytes>(parts.product);
}

int64_t attentionBytes(const shapes::AttentionShape &s) {
  return isOnTensorCores(s) ? int64_t(256) : std::max<int64_t>(256, AttentionTiles(s).bytes());
}
int64_t ofAttentionGrad(const KernelSpec &spec) {
  const Result<shapes::AttentionShape> s = shapes::readAttentionGrad(spec);
  if (!s)
    return 0;
  const auto cudnn = CudnnAttention::chosen(spec); // ours is at hand where cuDNN is not
  const int64_t own = isOnTensorCores(*s) ? coreGradBytes(*s) : AttentionTiles(*s).gradBytes();
  return std::max(own, cudnn ? CudnnAttention::gradBytes(cudnn->shape) : int64_t(0));
}

int64_t ofConv(const KernelSpec &spec) {
  const std::optional<CudnnConv> conv = CudnnConv::of(spec);
  return conv ? conv->workspaceBytes() : 0;
}

template <int64_t sums> int64_t ofChannels(const shapes::BatchNormShape &s) { return batchNormBytes(s, sums); }
int64_t ofBatchNormGradSums(const KernelSpec &spec) {
  const Result<ProgrammedSpec> seen = throughProgram(spec);
  return seen ? bytesOf<shapes::readBatchNormGradSums, ofChannels<2>>(seen->spec) : 0;
}

template <bool isWhole, bool isGrad> int64_t ofGroups(const shapes::GroupNormShape &s) {
  return groupNormBytes(s, isWhole, isGrad);
}

Result<shapes::ElementsShape> readElementsGrad(const KernelSpec &spec) { return shapes::readElements(spec, 2, 0); }
Result<shapes::GatherNdShape> readGatherNdGrad(const KernelSpec &spec) { return shapes::readGatherNd(spec, 2, 0); }
int64_t gatherNdGradBytes(const shapes::GatherNdShape &s) { return pairsBytes(s.batch * s.perBatch); }
int64_t scatterNdBytes(const shapes::ScatterNdShape &s) { return pairsBytes(s.tuples); }

//===-- the table -----------------------------------------------------------===//

/// A kernel that a library computes, or that has a workspace.
struct Record {
  std::string_view name;
  bool isOurs;                ///< over Block.h, where the library does not take it
  const Library *library;     ///< null: none
  WorkspaceFormula workspace; ///< null: none
};
constexpr Record kRecords[] = {
    {"fused", false, &kPrograms, nullptr},
    {"matmul", false, &kProducts, bytesOf<shapes::readMatmul, productBytes>},
    {"matmul_part", false, &kProducts, bytesOf<shapes::readMatmulPart, partBytes>},
    {"linear_gelu_grad", true, &kProducts, bytesOf<shapes::LinearParts::of, linearBytes>},
    {"linear_cross_entropy", true, &kProducts, bytesOf<shapes::readHead, headBytes>},
    {"linear_cross_entropy_grad", true, &kProducts, bytesOf<shapes::readHeadGrad, headBytes>},
    {"linear_log_softmax", true, &kProducts, bytesOf<shapes::readLogHead, headBytes>},
    {"linear_log_softmax_grad", true, &kProducts, bytesOf<shapes::readLogHeadGrad, headBytes>},
    {"attention", true, &kAttention, bytesOf<shapes::readAttention, attentionBytes>},
    {"attention_grad", true, &kAttention, ofAttentionGrad},
    {"conv", true, &kConv, ofConv},
    {"conv_transpose", true, &kConv, ofConv},
    {"conv_weight_grad", true, &kConv, ofConv},
    {"batch_norm", true, nullptr, bytesOf<shapes::readBatchNorm, ofChannels<2>>},
    {"batch_norm_grad", true, nullptr, bytesOf<shapes::readBatchNormGrad, ofChannels<2>>},
    {"batch_norm_statistics", true, nullptr, bytesOf<shapes::readBatchNormStatistics, ofChannels<2>>},
    {"batch_norm_grad_sums", true, &kPrograms, ofBatchNormGradSums},
    {"batch_norm_apply", true, nullptr, bytesOf<shapes::readBatchNormApply, ofChannels<0>>},
    {"group_norm", true, nullptr, bytesOf<shapes::readGroupNorm, ofGroups<true, false>>},
    {"group_norm_grad", true, nullptr, bytesOf<shapes::readGroupNormGrad, ofGroups<true, true>>},
    {"group_norm_statistics", true, nullptr, nullptr},
    {"group_norm_grad_sums", true, nullptr, bytesOf<shapes::readGroupNormGradSums, ofGroups<false, true>>},
    {"reduce_sum", true, nullptr, bytesOf<shapes::readReduce, reduceBytes>},
    {"reduce_mean", true, nullptr, bytesOf<shapes::readReduce, reduceBytes>},
    {"reduce_max", true, nullptr, bytesOf<shapes::readReduce, reduceBytes>},
    {"reduce_min", true, nullptr, bytesOf<shapes::readReduce, reduceBytes>},
    {"reduce_prod", true, nullptr, bytesOf<shapes::readReduce, reduceBytes>},
    {"cross_entropy", true, nullptr, bytesOf<shapes::readCrossEntropy, crossEntropyBytes>},
    {"cross_entropy_grad", true, nullptr, bytesOf<shapes::readCrossEntropyGrad, crossEntropyGradBytes>},
    {"layer_norm_grad", true, nullptr, bytesOf<shapes::readLayerNormGrad, ofNormGrad<2>>},
    {"rms_norm_grad", true, nullptr, bytesOf<shapes::readRmsNormGrad, ofNormGrad<1>>},
    {"gather_grad", true, nullptr, bytesOf<shapes::readGatherGrad, gatherGradBytes>},
    {"gather_elements_grad", true, nullptr, ofPairs<readElementsGrad, 1>},
    {"gather_nd_grad", true, nullptr, bytesOf<readGatherNdGrad, gatherNdGradBytes>},
    {"scatter_elements", true, nullptr, ofPairs<shapes::readScatterElements, 1>},
    {"scatter_nd", true, nullptr, bytesOf<shapes::readScatterNd, scatterNdBytes>},
    {"max_pool_grad", true, nullptr, ofPairs<shapes::readMaxPoolGrad, 0>},
};

/// The others: ours, and they need none. By family, in the order of this folder's headers; Elementwise.h's functions
/// are listed in formula/.
constexpr const char *kPlain =
    "not is_nan gelu gelu_grad silu_grad select cast dropout dropout_mask dropout_grad random "
    "transpose expand slice slice_grad concat pad copy own_part fill_gaps constant iota loss_scale "
    "gather gather_elements gather_nd top_k arg_max cumsum cumprod max_pool sum_pool sum_pool_grad moving_average "
    "softmax log_softmax softmax_grad log_softmax_grad label_index layer_norm rms_norm "
    "adamw adam sgd momentum accumulate_loss accumulate_gradient norm_partial norm_finish "
    "quantize dequantize dequantize_sum_quantize dequantize_sum";

const Record *find(std::string_view kernel) {
  for (const Record &record : kRecords)
    if (record.name == kernel)
      return &record;
  return nullptr;
}

} // namespace

std::optional<Implementation> implementationOf(const KernelSpec &spec) {
  const Record *record = find(spec.name);
  const Library *library = record ? record->library : nullptr;
  if (library && !spec.operands.empty() && library->takes(spec))
    return Implementation{Implementation::Kind::library, library->name, {}};
  if (ownKernels().count(spec.name))
    return Implementation{Implementation::Kind::own, {}, {}};
  return std::nullopt;
}

const std::set<std::string> &ownKernels() {
  static const std::set<std::string> names = [] {
    std::istringstream words(kPlain);
    std::set<std::string> all{std::istream_iterator<std::string>(words), {}};
    for (const Record &record : kRecords)
      if (record.isOurs)
        all.emplace(record.name);
    auto add = [&](const char *name, auto) { all.insert(name); };
    formula::forFloatFunctions(add);
    formula::forAnyFunctions(add);
    formula::forArithmetic(add);
    formula::forComparisons(add);
    formula::forBitFunctions(add);
    return all;
  }();
  return names;
}

WorkspaceFormula workspaceOf(std::string_view kernel) {
  const Record *record = find(kernel);
  return record ? record->workspace : nullptr;
}

} // namespace zc::cuda
