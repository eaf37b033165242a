// cuBLASLt's double: products as plain loops, with an algorithm that holds its caller to what it was chosen for: types,
// extents, the epilogue, addresses' alignment, and workspace, which it fills.
#include "kernels/formula/Activation.h"
#include "kernels/formula/Elements.h"
#include "test/cuda/double/Double.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstring>

using namespace zc::doubled;
using zc::formula::Bf16;
using zc::formula::F16;

namespace {

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batches = 1;
  int64_t stride = 0;
};

struct Description {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr, *aux = nullptr;
  int64_t auxLeading = 0;
};

struct Preference {
  uint32_t schemes = ~0u;
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256}; ///< of A, B, C, D
};

/// What an algorithm is for.
struct Algorithm {
  static constexpr uint64_t kMark = 0x7a63616c676f3031;
  uint64_t mark, product;
  uint64_t workspace;
  uint32_t alignment[4];
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t::data));

struct Handle {
  int gpu;
};

template <typename T, typename Opaque> T &as(Opaque *opaque) { return *reinterpret_cast<T *>(opaque); }
template <typename T, typename Opaque, typename... Arguments>
cublasStatus_t made(Opaque **handle, Arguments &&...arguments) {
  *handle = reinterpret_cast<Opaque *>(new T{std::forward<Arguments>(arguments)...});
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T, typename Opaque> cublasStatus_t gone(Opaque *handle) {
  delete reinterpret_cast<T *>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t wrongly(cublasStatus_t status, const char *call, const std::string &why) {
  (void)wrong(cudaSuccess, call, why);
  return status;
}

/// `value`, of an attribute that has its size.
template <typename T> cublasStatus_t set(T &value, const void *from, size_t bytes, const char *call) {
  if (bytes != sizeof value)
    return wrongly(CUBLAS_STATUS_INVALID_VALUE, call, "of " + std::to_string(bytes) + " bytes");
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool isHalf(cudaDataType type) { return type == CUDA_R_16BF || type == CUDA_R_16F; }
uint64_t sizeOf(cudaDataType type) { return type == CUDA_R_64F ? 8 : isHalf(type) ? 2 : 4; }

struct Product {
  const Description &how;
  const Layout &a, &b, &c, &d;
  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return how.transA == CUBLAS_OP_N ? a.columns : a.rows; }
  bool isBiased() const { return how.epilogue == CUBLASLT_EPILOGUE_BIAS; }
  bool roundsFactors() const { return how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F; }
  bool isGelu() const { return how.epilogue == CUBLASLT_EPILOGUE_DGELU; }

  /// What is wrong with it; empty: nothing.
  std::string check() const {
    auto has = [](const Layout &layout, bool isTurned, uint64_t rows, uint64_t columns) {
      return (isTurned ? layout.columns : layout.rows) == rows && (isTurned ? layout.rows : layout.columns) == columns;
    };
    if (!has(a, how.transA != CUBLAS_OP_N, m(), k()) || !has(b, how.transB != CUBLAS_OP_N, k(), n()) ||
        !has(c, false, m(), n()))
      return "extents that do not fit";
    for (const Layout *layout : {&a, &b, &c, &d})
      if (layout->leading < static_cast<int64_t>(layout->rows) || layout->batches != d.batches)
        return "columns that overlap, or batches of different counts";
    if (d.batches > 1 && d.stride < d.leading * static_cast<int64_t>(n()))
      return "results that overlap";
    return {};
  }
  bool isSupported() const {
    const bool isDouble = how.compute == CUBLAS_COMPUTE_64F;
    if (a.type != b.type || c.type != d.type || how.scale != (isDouble ? CUDA_R_64F : CUDA_R_32F) ||
        (a.type == CUDA_R_64F) != isDouble || (!isDouble && how.compute != CUBLAS_COMPUTE_32F && !roundsFactors()) ||
        (d.type != a.type && !(isHalf(a.type) && d.type == CUDA_R_32F)))
      return false;
    if (isGelu())
      return isHalf(a.type) && d.type == a.type && how.aux && how.auxLeading % 8 == 0 && d.batches == 1 &&
             how.auxLeading >= static_cast<int64_t>(m());
    return how.epilogue == CUBLASLT_EPILOGUE_DEFAULT || (isBiased() && !isDouble && how.bias);
  }
  /// All of it that an algorithm depends on.
  uint64_t hash() const {
    uint64_t mixed = 14695981039346656037u;
    auto mix = [&](auto value) { mixed = (mixed ^ static_cast<uint64_t>(value)) * 1099511628211u; };
    for (const Layout *l : {&a, &b, &c, &d})
      for (int64_t value :
           {int64_t(l->type), int64_t(l->rows), int64_t(l->columns), l->leading, int64_t(l->batches), l->stride})
        mix(value);
    for (int value : {int(how.compute), int(how.scale), int(how.transA), int(how.transB), int(how.epilogue)})
      mix(value);
    return mixed;
  }
};

struct Operands {
  const void *a, *b, *c;
  void *d;
  const void *bias, *aux; ///< null: none
  double alpha, beta;
};

/// A float of which products see 10 bits of mantissa, the nearest (PTX: cvt.rna.tf32.f32).
struct Tf32 {
  float value;
  float rounded() const {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000) & ~uint32_t(0x1fff);
    float nearest;
    std::memcpy(&nearest, &bits, sizeof nearest);
    return nearest;
  }
};

template <typename T> auto at(const void *base, int64_t i) {
  const T &element = static_cast<const T *>(base)[i];
  if constexpr (std::is_same_v<T, Tf32>)
    return element.rounded();
  else
    return zc::formula::load(element);
}

/// Sums run over k in order, in S.
template <typename T, typename Out, typename S>
void multiply(const Layout &a, const Layout &b, const Layout &c, const Layout &d, bool turnsA, bool turnsB, int64_t k,
              int64_t auxLeading, const Operands &o) {
  const auto m = static_cast<int64_t>(d.rows), n = static_cast<int64_t>(d.columns);
  std::vector<S> left(static_cast<size_t>(m * k)), right(static_cast<size_t>(k));
  for (int32_t batch = 0; batch < d.batches; ++batch) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = 0; p < k; ++p)
        left[static_cast<size_t>(i * k + p)] =
            at<T>(o.a, batch * a.stride + (turnsA ? p + i * a.leading : i + p * a.leading));
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p)
        right[static_cast<size_t>(p)] = at<T>(o.b, batch * b.stride + (turnsB ? j + p * b.leading : p + j * b.leading));
      for (int64_t i = 0; i < m; ++i) {
        S sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += left[static_cast<size_t>(i * k + p)] * right[static_cast<size_t>(p)];
        S result = static_cast<S>(o.alpha) * sum;
        if (o.beta != 0)
          result += static_cast<S>(o.beta) * at<Out>(o.c, batch * c.stride + i + j * c.leading);
        if (o.bias)
          result += at<Out>(o.bias, i);
        if (o.aux)
          result *= zc::formula::geluSlope<S>(at<Out>(o.aux, i + j * auxLeading), /*tanh=*/true);
        static_cast<Out *>(o.d)[batch * d.stride + i + j * d.leading] = zc::formula::store<Out>(result);
      }
    }
  }
}

template <typename T> auto chosen(cudaDataType out) {
  return out == CUDA_R_32F ? multiply<T, float, float> : multiply<T, T, float>;
}
auto chosen(cudaDataType in, cudaDataType out, bool roundsFactors) {
  return roundsFactors       ? multiply<Tf32, float, float>
         : in == CUDA_R_64F  ? multiply<double, double, double>
         : in == CUDA_R_16BF ? chosen<Bf16>(out)
         : in == CUDA_R_16F  ? chosen<F16>(out)
                             : multiply<float, float, float>;
}

/// Of a matrix and its batch.
void checkPlace(const char *call, const void *matrix, const Layout &layout) {
  const int64_t elements = (layout.batches - 1) * layout.stride +
                           static_cast<int64_t>(layout.columns - 1) * layout.leading +
                           static_cast<int64_t>(layout.rows);
  if (rangeOf(call, matrix, static_cast<uint64_t>(elements) * sizeOf(layout.type)).place == Place::pageable)
    undefined(call, "of memory that no GPU reaches");
}

} // namespace

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  const Apart apart;
  if (entered("cublasLtCreate") != cudaSuccess || refusedByCapture("cublasLtCreate") != cudaSuccess)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  return made<Handle>(handle, currentGpu().ordinal);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made_, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return made<Description>(made_, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) { return gone<Description>(description); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes) {
  auto &own = as<Description>(description);
  const char *call = "cublasLtMatmulDescSetAttribute";
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(own.transA, value, bytes, call);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(own.transB, value, bytes, call);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(own.epilogue, value, bytes, call);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(own.bias, value, bytes, call);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return set(own.aux, value, bytes, call);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return set(own.auxLeading, value, bytes, call);
  default:
    undefined(call, "the double does not know attribute " + std::to_string(attribute));
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return made<Layout>(layout, type, rows, columns, leading);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return gone<Layout>(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
  const char *call = "cublasLtMatrixLayoutSetAttribute";
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(as<Layout>(layout).batches, value, bytes, call);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(as<Layout>(layout).stride, value, bytes, call);
  undefined(call, "the double does not know attribute " + std::to_string(attribute));
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return made<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return gone<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  auto &own = as<Preference>(preference);
  const char *call = "cublasLtMatmulPreferenceSetAttribute";
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return set(own.schemes, value, bytes, call);
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return set(own.workspace, value, bytes, call);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return set(own.alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes, call);
  default:
    undefined(call, "the double does not know attribute " + std::to_string(attribute));
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t results[], int *count) {
  const char *call = "cublasLtMatmulAlgoGetHeuristic";
  const auto &wanted = as<Preference>(preference);
  const Product product{as<Description>(description), as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d)};
  *count = 0;
  if (as<Handle>(handle).gpu != currentGpu().ordinal)
    return wrongly(CUBLAS_STATUS_INVALID_VALUE, call, "with another GPU's handle");
  if (std::string why = product.check(); !why.empty())
    return wrongly(CUBLAS_STATUS_INVALID_VALUE, call, why);
  if (wanted.schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE)
    return wrongly(CUBLAS_STATUS_INVALID_VALUE, call, "may give other bits each time");
  const bool isPlain = product.how.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  const uint32_t least = isPlain ? options().aligned : std::max(options().aligned, options().epilogues);
  if (!product.isSupported() || *std::min_element(wanted.alignment, wanted.alignment + 4) < least)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm found{Algorithm::kMark, product.hash(), wanted.workspace, {}};
  std::memcpy(found.alignment, wanted.alignment, sizeof found.alignment);
  results[0] = {};
  std::memcpy(results[0].algo.data, &found, sizeof found);
  results[0].workspaceSize = wanted.workspace;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/// Of its only algorithm.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                                    size_t bytes, size_t *written) {
  Algorithm algorithm;
  std::memcpy(&algorithm, algo->data, sizeof algorithm);
  if (algorithm.mark != Algorithm::kMark || bytes != sizeof(uint32_t))
    return wrongly(CUBLAS_STATUS_INVALID_VALUE, "cublasLtMatmulAlgoConfigGetAttribute", "of no algorithm");
  const uint32_t number = attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1 : 0;
  std::memcpy(value, &number, sizeof number);
  *written = sizeof number;
  return CUBLAS_STATUS_SUCCESS;
}

/// What is wrong with a call by `algorithm`; empty: nothing.
static std::string checkCall(const Algorithm &algorithm, const Product &product, const Operands &o,
                             const void *workspace, size_t bytes) {
  if (algorithm.mark != Algorithm::kMark || algorithm.product != product.hash())
    return "by an algorithm that was not chosen for it";
  const void *const places[] = {o.a, o.b, o.beta != 0 ? o.c : o.d, o.d};
  for (size_t i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(places[i]) % algorithm.alignment[i] != 0)
      return "at addresses that are aligned less than it was said";
  if (bytes < algorithm.workspace || reinterpret_cast<uintptr_t>(workspace) % 16 != 0 || (bytes && !workspace))
    return "with less workspace than was said, or at an odd place";
  return {};
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b,
                              const void *beta, const void *C, cublasLtMatrixLayout_t c, void *D,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                              cudaStream_t stream) {
  const char *call = "cublasLtMatmul";
  const Apart apart;
  if (entered(call) != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto &how = as<Description>(description);
  const Product product{how, as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d)};
  auto number = [&](const void *scale) {
    return how.scale == CUDA_R_64F ? *static_cast<const double *>(scale) : *static_cast<const float *>(scale);
  };
  const Operands o{A,
                   B,
                   C,
                   D,
                   product.isBiased() ? how.bias : nullptr,
                   product.isGelu() ? how.aux : nullptr,
                   number(alpha),
                   number(beta)};
  Algorithm algorithm;
  std::memcpy(&algorithm, algo->data, sizeof algorithm);
  if (std::string why = checkCall(algorithm, product, o, workspace, bytes); !why.empty())
    return wrongly(CUBLAS_STATUS_INVALID_VALUE, call, why);
  if (as<Handle>(handle).gpu != currentGpu().ordinal)
    return wrongly(CUBLAS_STATUS_INVALID_VALUE, call, "with another GPU's handle");
  checkPlace(call, A, product.a);
  checkPlace(call, B, product.b);
  checkPlace(call, D, product.d);
  if (o.beta != 0)
    checkPlace(call, C, product.c);
  if (o.bias)
    checkPlace(call, o.bias, {product.d.type, product.m(), 1, 0});
  if (o.aux)
    checkPlace(call, o.aux, {product.d.type, product.m(), product.n(), how.auxLeading});
  if (bytes > 0 && rangeOf(call, workspace, bytes).place != Place::device)
    undefined(call, "works in memory that is not the GPU's");
  auto multiply = [=, run = chosen(product.a.type, product.d.type, product.roundsFactors()), la = product.a,
                   lb = product.b, lc = product.c, ld = product.d, k = static_cast<int64_t>(product.k()),
                   turnsA = how.transA != CUBLAS_OP_N, turnsB = how.transB != CUBLAS_OP_N,
                   auxLeading = how.auxLeading] {
    if (bytes)
      std::memset(workspace, 0xa5, bytes);
    run(la, lb, lc, ld, turnsA, turnsB, k, auxLeading, o);
  };
  return launchOnHost(call, 1, 1, 0, nullptr, 0, multiply, stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                                  : CUBLAS_STATUS_EXECUTION_FAILED;
}
