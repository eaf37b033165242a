#include "kernels/cuda/Implementations.h"
#include "kernels/cuda/CudnnAttention.h"
#include "kernels/cuda/CudnnConv.h"
#include "kernels/formula/Elements.h"
#include "kernels/formula/Elementwise.h"

#include <iterator>
#include <sstream>

namespace zc::cuda {

namespace {

/// Products, of all floats.
bool isProduct(const KernelSpec &spec) { return formula::isFloat(spec.operands[0].dtype); }

bool isCudnnAttention(const KernelSpec &spec) { return CudnnAttention::chosen(spec).has_value(); }
/// A program's source, compiled while a plan is prepared.
bool hasProgram(const KernelSpec &spec) { return spec.has("program"); }
bool isCudnnConv(const KernelSpec &spec) { return CudnnConv::of(spec).has_value(); }

/// Kernels that a library computes, where it takes the spec.
struct Library {
  std::string_view kernel, name;
  bool (*takes)(const KernelSpec &);
};
constexpr Library kLibraries[] = {
    {"matmul", "cuBLASLt", isProduct},
    {"matmul_part", "cuBLASLt", isProduct},
    {"linear_gelu_grad", "cuBLASLt", isProduct},
    {"linear_cross_entropy", "cuBLASLt", isProduct},
    {"linear_cross_entropy_grad", "cuBLASLt", isProduct},
    {"attention", "cuDNN", isCudnnAttention},
    {"attention_grad", "cuDNN", isCudnnAttention},
    {"conv", "cuDNN", isCudnnConv},
    {"conv_transpose", "cuDNN", isCudnnConv},
    {"conv_weight_grad", "cuDNN", isCudnnConv},
    {"fused", "NVRTC", hasProgram},
    {"batch_norm_grad_sums", "NVRTC", hasProgram},
};

/// By family, in the order of this folder's headers; Elementwise.h's functions are listed in formula/.
constexpr const char *kOwn =
    "not is_nan gelu gelu_grad silu_grad select cast dropout dropout_grad random "
    "transpose expand slice slice_grad concat pad copy own_part fill_gaps constant iota loss_scale "
    "reduce_sum reduce_mean reduce_max reduce_min reduce_prod "
    "gather gather_grad gather_elements "
    "gather_elements_grad gather_nd gather_nd_grad scatter_elements scatter_nd "
    "top_k arg_max cumsum cumprod "
    "max_pool max_pool_grad sum_pool sum_pool_grad "
    "batch_norm batch_norm_grad batch_norm_statistics batch_norm_grad_sums batch_norm_apply moving_average "
    "conv conv_transpose conv_weight_grad attention attention_grad "
    "softmax log_softmax softmax_grad log_softmax_grad label_index cross_entropy cross_entropy_grad "
    "linear_cross_entropy linear_cross_entropy_grad linear_gelu_grad "
    "layer_norm layer_norm_grad rms_norm rms_norm_grad "
    "adamw adam sgd momentum accumulate_loss accumulate_gradient norm_partial norm_finish "
    "quantize dequantize dequantize_sum_quantize dequantize_sum";

const Library *findLibrary(const KernelSpec &spec) {
  for (const Library &library : kLibraries)
    if (library.kernel == spec.name)
      return !spec.operands.empty() && library.takes(spec) ? &library : nullptr;
  return nullptr;
}

} // namespace

std::optional<Implementation> implementationOf(const KernelSpec &spec) {
  if (const Library *library = findLibrary(spec))
    return Implementation{Implementation::Kind::library, library->name, {}};
  if (ownKernels().count(spec.name))
    return Implementation{Implementation::Kind::own, {}, {}};
  return std::nullopt;
}

const std::set<std::string> &ownKernels() {
  static const std::set<std::string> names = [] {
    std::istringstream words(kOwn);
    std::set<std::string> all{std::istream_iterator<std::string>(words), {}};
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

} // namespace zc::cuda
