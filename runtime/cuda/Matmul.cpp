// matmul, matmul_part, linear_gelu_grad: cuBLASLt. An algorithm is asked for once, while preparing: of those that give
// the same bits each time, in the plan's workspace. fp32 without TF32 unless the plan says so; sums of 16-bit floats in
// fp32.
#include "runtime/cuda/Matmul.h"
#include "kernels/shapes/LinearParts.h"
#include "runtime/cuda/Choices.h"
#include "runtime/cuda/Errors.h"
#include "runtime/cuda/Library.h"
#include "runtime/cuda/MatmulLayout.h"

#include <cublasLt.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace zc::cuda {

namespace {

/// The functions that are used, by their own declarations.
struct CublasLt {
  Library library = cublasLtLibrary();
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) configOf;
  decltype(&cublasLtMatmulDescCreate) descCreate;
  decltype(&cublasLtMatmulDescDestroy) descDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) descSet;
  decltype(&cublasLtMatrixLayoutCreate) layoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) layoutDestroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layoutSet;
  decltype(&cublasLtMatmulPreferenceCreate) preferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) preferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preferenceSet;

  CublasLt() {
    library.take(create, "cublasLtCreate");
    library.take(matmul, "cublasLtMatmul");
    library.take(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.take(configOf, "cublasLtMatmulAlgoConfigGetAttribute");
    library.take(descCreate, "cublasLtMatmulDescCreate");
    library.take(descDestroy, "cublasLtMatmulDescDestroy");
    library.take(descSet, "cublasLtMatmulDescSetAttribute");
    library.take(layoutCreate, "cublasLtMatrixLayoutCreate");
    library.take(layoutDestroy, "cublasLtMatrixLayoutDestroy");
    library.take(layoutSet, "cublasLtMatrixLayoutSetAttribute");
    library.take(preferenceCreate, "cublasLtMatmulPreferenceCreate");
    library.take(preferenceDestroy, "cublasLtMatmulPreferenceDestroy");
    library.take(preferenceSet, "cublasLtMatmulPreferenceSetAttribute");
  }
  static const CublasLt &instance() {
    static const CublasLt lt;
    return lt;
  }
};

Error refused(cublasStatus_t status, const std::string &what) {
  return makeError(status == CUBLAS_STATUS_ALLOC_FAILED ? Code::budget : Code::internal, 632,
                   "cuBLASLt cannot " + what + ": status " + std::to_string(static_cast<int>(status)));
}
/// An address that must be set to ask for an algorithm, and is not looked at.
void *nowhere() { return reinterpret_cast<void *>(uintptr_t(4096)); }

#define ZC_CUBLAS(call, what)                                                                                          \
  do {                                                                                                                 \
    if (cublasStatus_t zcBlas = (call); zcBlas != CUBLAS_STATUS_SUCCESS)                                               \
      return refused(zcBlas, what);                                                                                    \
  } while (0)

/// One per device, made when its first product is prepared, and kept.
Result<cublasLtHandle_t> handleOfCurrentDevice() {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const CublasLt &lt = CublasLt::instance();
  ZC_RETURN_IF_ERROR(Status(lt.library.status()));
  int ordinal = 0;
  ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
  std::lock_guard<std::mutex> lock(mutex);
  auto [entry, isNew] = handles.try_emplace(ordinal, nullptr);
  if (isNew || !entry->second)
    if (cublasStatus_t status = lt.create(&entry->second); status != CUBLAS_STATUS_SUCCESS) {
      std::optional<Error> found = failedOnGpu("cuBLASLt", "start", status == CUBLAS_STATUS_ALLOC_FAILED);
      return found ? *found : refused(status, "start");
    }
  return entry->second;
}

cudaDataType_t typeOf(DType type) {
  return type == DType::f64    ? CUDA_R_64F
         : type == DType::bf16 ? CUDA_R_16BF
         : type == DType::f16  ? CUDA_R_16F
                               : CUDA_R_32F;
}

/// What cuBLASLt's descriptors need to go again.
struct Descriptors {
  cublasLtMatmulDesc_t operation{};
  std::array<cublasLtMatrixLayout_t, 3> layouts{}; ///< of A, B, D
  cublasLtMatmulPreference_t preference{};

  Descriptors() = default;
  Descriptors(const Descriptors &) = delete;
  ~Descriptors() {
    const CublasLt &lt = CublasLt::instance();
    for (cublasLtMatrixLayout_t layout : layouts)
      if (layout)
        (void)lt.layoutDestroy(layout);
    if (preference)
      (void)lt.preferenceDestroy(preference);
    if (operation)
      (void)lt.descDestroy(operation);
  }
};

/// What is multiplied; the rest of a kernel's spec says where.
struct ProductSpec {
  /// A result of the factors' type, and nothing else.
  ProductSpec(const KernelSpec &spec, const shapes::MatmulShape &shape)
      : name(spec.name), shape(shape), out(shape.dtype), workspace(static_cast<uint64_t>(spec.workspace)),
        roundsFactors(spec.tf32 && shape.dtype == DType::f32) {}

  std::string name;
  shapes::MatmulShape shape;
  DType out;
  uint64_t workspace;
  bool roundsFactors;      ///< to TF32
  bool hasAddend = false;  ///< operand 2, of the result's shape: D = AB + C
  bool isGeluGrad = false; ///< operand 2: what the gelu was of, whose gradient the product is multiplied with
};

class LtMatmul : public GpuKernel {
public:
  explicit LtMatmul(ProductSpec spec) : spec(std::move(spec)), product(layoutOf(this->spec.shape)) {}

  Status prepare();
  Status enqueue(void *const *operands, const Frame &, cudaStream_t stream) override;
  /// Of a gelu's gradient: lies all of it where the library takes it?
  bool takes(void *const *operands) const;

private:
  /// Addresses are multiples of 16 bytes where slices begin; parts of slices may begin anywhere.
  static constexpr uint32_t kAligned = 16;
  /// How a product is made.
  struct Way {
    cublasLtMatmulAlgo_t algorithm;
    bool addsBias; ///< in the epilogue; else it lies in the result before the product is added
  };

  Status describe();
  Status setLayout(cublasLtMatrixLayout_t &layout, const LtMatrix &matrix, DType type);
  Status choose(uint32_t alignment, bool addsBias, std::optional<Way> &way);
  std::string question(uint32_t alignment, bool addsBias) const;
  Status setBias(const void *bias) const;
  const std::optional<Way> &wayOf(void *const *operands) const;
  Status withoutProduct(void *const *operands, cudaStream_t stream) const;
  Status fillBias(void *const *operands, cudaStream_t stream) const;
  Status prepareGeluGrad();
  template <typename T> Status set(cublasLtMatmulDescAttributes_t attribute, const T &value) const {
    ZC_CUBLAS(CublasLt::instance().descSet(made.operation, attribute, &value, sizeof value), "describe a product");
    return {};
  }
  void *result(void *const *operands) const { return operands[hasThird() ? 3 : 2]; }
  /// Of doubles a description that names a bias is refused, whatever its epilogue.
  bool mayAddBias() const { return spec.shape.hasBias && spec.shape.dtype != DType::f64; }
  bool hasThird() const { return spec.shape.hasBias || spec.hasAddend || spec.isGeluGrad; }
  int64_t elements() const { return spec.shape.numBatches * spec.shape.m * spec.shape.n; }
  std::string what() const {
    const shapes::MatmulShape &s = spec.shape;
    return "multiply " + std::to_string(s.numBatches) + " times " + std::to_string(s.m) + "x" + std::to_string(s.k) +
           " by " + std::to_string(s.k) + "x" + std::to_string(s.n) + " of " + std::string(nameOf(s.dtype)) +
           " for kernel '" + spec.name + "'";
  }

  const ProductSpec spec;
  const LtProduct product;
  cublasLtHandle_t handle{};
  Descriptors made;
  std::optional<Way> aligned, anywhere; ///< the second one cuBLASLt may not have
};

Status LtMatmul::setLayout(cublasLtMatrixLayout_t &layout, const LtMatrix &matrix, DType type) {
  const CublasLt &lt = CublasLt::instance();
  auto rows = static_cast<uint64_t>(matrix.rows), columns = static_cast<uint64_t>(matrix.columns);
  ZC_CUBLAS(lt.layoutCreate(&layout, typeOf(type), rows, columns, matrix.rows), "describe a matrix");
  int32_t count = product.batches;
  int64_t stride = matrix.batchStride;
  ZC_CUBLAS(lt.layoutSet(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "describe a matrix");
  ZC_CUBLAS(lt.layoutSet(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
            "describe a matrix");
  return {};
}

Status LtMatmul::describe() {
  const CublasLt &lt = CublasLt::instance();
  bool isDouble = spec.shape.dtype == DType::f64;
  cublasComputeType_t compute = isDouble             ? CUBLAS_COMPUTE_64F
                                : spec.roundsFactors ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
  ZC_CUBLAS(lt.descCreate(&made.operation, compute, isDouble ? CUDA_R_64F : CUDA_R_32F), "describe a product");
  cublasOperation_t a = product.transA ? CUBLAS_OP_T : CUBLAS_OP_N, b = product.transB ? CUBLAS_OP_T : CUBLAS_OP_N;
  ZC_CUBLAS(lt.descSet(made.operation, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a), "describe a product");
  ZC_CUBLAS(lt.descSet(made.operation, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b), "describe a product");
  ZC_RETURN_IF_ERROR(setLayout(made.layouts[0], product.a, spec.shape.dtype));
  ZC_RETURN_IF_ERROR(setLayout(made.layouts[1], product.b, spec.shape.dtype));
  ZC_RETURN_IF_ERROR(setLayout(made.layouts[2], product.d, spec.out));
  ZC_CUBLAS(lt.preferenceCreate(&made.preference), "describe a preference");
  // Not in place in the result, where parts would be added in whatever order they come.
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  uint64_t workspace = spec.workspace;
  ZC_CUBLAS(lt.preferenceSet(made.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes),
            "describe a preference");
  ZC_CUBLAS(lt.preferenceSet(made.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
            "describe a preference");
  return {};
}

/// All that heuristics see, but for the GPU: "12 x 1024x64 by 64x1024 of bf16 to bf16, turned: right, strides ..."
std::string LtMatmul::question(uint32_t alignment, bool addsBias) const {
  const auto &[a, b, d] = std::tie(product.a, product.b, product.d);
  const shapes::MatmulShape &s = spec.shape;
  std::string text = std::to_string(product.batches) + " x " + std::to_string(s.m) + "x" + std::to_string(s.k) +
                     " by " + std::to_string(s.k) + "x" + std::to_string(s.n) + " of " +
                     std::string(spec.roundsFactors ? "tf32" : nameOf(s.dtype));
  if (spec.out != s.dtype)
    text += " to " + std::string(nameOf(spec.out));
  text += std::string(product.transB ? ", left turned" : "") + (product.transA ? ", right turned" : "");
  if (product.batches > 1)
    text += ", strides " + std::to_string(b.batchStride) + " " + std::to_string(a.batchStride) + " " +
            std::to_string(d.batchStride);
  text += spec.isGeluGrad ? ", a gelu's gradient" : addsBias ? ", a bias" : "";
  return text + ", at multiples of " + std::to_string(alignment) + ", in " + std::to_string(spec.workspace) + " bytes";
}

/// "algorithm 66, tile 20, stages 36, split 1, reduction 0, cluster 4, 0 bytes": cuBLASLt's numbers.
static std::string algorithmOf(const cublasLtMatmulHeuristicResult_t &found) {
  constexpr std::pair<const char *, cublasLtMatmulAlgoConfigAttributes_t> kParts[] = {
      {"algorithm", CUBLASLT_ALGO_CONFIG_ID},
      {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID},
      {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID},
      {"split", CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
      {"reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
      {"custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION}};
  std::string text;
  for (const auto &[name, attribute] : kParts) {
    uint32_t number = 0;
    size_t written = 0;
    if (CublasLt::instance().configOf(&found.algo, attribute, &number, sizeof number, &written) ==
        CUBLAS_STATUS_SUCCESS)
      text += std::string(name) + " " + std::to_string(number) + ", ";
  }
  return text + std::to_string(found.workspaceSize) + " bytes";
}

/// The bias that an epilogue adds; null: none does.
Status LtMatmul::setBias(const void *bias) const {
  ZC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT));
  return set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

/// An algorithm for addresses of `alignment` bytes, if there is one.
Status LtMatmul::choose(uint32_t alignment, bool addsBias, std::optional<Way> &way) {
  const CublasLt &lt = CublasLt::instance();
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    ZC_CUBLAS(lt.preferenceSet(made.preference, attribute, &alignment, sizeof alignment), "describe a preference");
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  cublasStatus_t status = lt.heuristic(handle, made.operation, made.layouts[0], made.layouts[1], made.layouts[2],
                                       made.layouts[2], made.preference, 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
    Choices::instance().add("cuBLASLt", question(alignment, addsBias), "none");
    return {};
  }
  ZC_CUBLAS(status, what());
  Choices::instance().add("cuBLASLt", question(alignment, addsBias), algorithmOf(found));
  way = Way{found.algo, addsBias};
  return {};
}

Status LtMatmul::prepare() {
  if (product.calls.empty() || spec.shape.k == 0)
    return {};
  Result<cublasLtHandle_t> found = handleOfCurrentDevice();
  ZC_RETURN_IF_ERROR(found.status());
  handle = *found;
  ZC_RETURN_IF_ERROR(describe());
  if (spec.isGeluGrad)
    return prepareGeluGrad();
  const auto size = static_cast<uint32_t>(sizeOf(spec.shape.dtype));
  if (mayAddBias()) {
    ZC_RETURN_IF_ERROR(setBias(nowhere()));
    ZC_RETURN_IF_ERROR(choose(kAligned, true, aligned));
    if (aligned)
      ZC_RETURN_IF_ERROR(choose(size, true, anywhere));
    ZC_RETURN_IF_ERROR(setBias(nullptr));
  }
  if (!aligned)
    ZC_RETURN_IF_ERROR(choose(kAligned, false, aligned));
  if (!aligned)
    return makeError(Code::unsupported, 633, "cuBLASLt has no way to " + what());
  return anywhere ? Status() : choose(size, false, anywhere);
}

Status LtMatmul::prepareGeluGrad() {
  ZC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU));
  ZC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nowhere()));
  ZC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.d.rows));
  ZC_RETURN_IF_ERROR(choose(kAligned, false, aligned));
  if (!aligned)
    return makeError(Code::unsupported, 633, "cuBLASLt has no way to " + what());
  return {};
}

bool LtMatmul::takes(void *const *operands) const {
  uintptr_t places = 0;
  for (size_t i = 0; i < 4; ++i)
    places |= reinterpret_cast<uintptr_t>(operands[i]);
  return places % kAligned == 0;
}

/// Without a product: what it would be added to.
Status LtMatmul::withoutProduct(void *const *operands, cudaStream_t stream) const {
  auto bytes = static_cast<size_t>(elements() * sizeOf(spec.out));
  if (bytes == 0)
    return {};
  if (spec.shape.hasBias)
    return fillBias(operands, stream);
  if (!spec.hasAddend)
    ZC_CUDA(cudaMemsetAsync(result(operands), 0, bytes, stream), "write zeroes");
  else if (operands[2] != result(operands))
    ZC_CUDA(cudaMemcpyAsync(result(operands), operands[2], bytes, cudaMemcpyDeviceToDevice, stream), "copy an addend");
  return {};
}

Status LtMatmul::fillBias(void *const *operands, cudaStream_t stream) const {
  ZC_CUDA(
      gpuRepeatRow(result(operands), operands[2], elements() / spec.shape.n, spec.shape.n * sizeOf(spec.out), stream),
      "write a bias");
  return {};
}

/// One for all calls: a bias lies in all of the result or in none of it.
const std::optional<LtMatmul::Way> &LtMatmul::wayOf(void *const *operands) const {
  const auto place = [&](size_t i) { return reinterpret_cast<uintptr_t>(operands[i]); };
  const int64_t size = sizeOf(spec.shape.dtype), outSize = sizeOf(spec.out);
  uintptr_t places = aligned->addsBias ? place(2) : 0;
  for (const LtProduct::Offsets &at : product.calls) {
    const auto out = static_cast<uintptr_t>(at.out * outSize);
    places |= (place(0) + static_cast<uintptr_t>(at.lhs * size)) | (place(1) + static_cast<uintptr_t>(at.rhs * size)) |
              (reinterpret_cast<uintptr_t>(result(operands)) + out) | (spec.hasAddend ? place(2) + out : 0);
  }
  return places % kAligned == 0 ? aligned : anywhere;
}

Status LtMatmul::enqueue(void *const *operands, const Frame &, cudaStream_t stream) {
  const CublasLt &lt = CublasLt::instance();
  if (!handle)
    return withoutProduct(operands, stream);
  const std::optional<Way> &way = wayOf(operands);
  if (!way)
    return makeError(Code::unsupported, 636,
                     "cuBLASLt has no way to " + what() + " at addresses that are no multiples of " +
                         std::to_string(kAligned));
  auto *lhs = static_cast<const char *>(operands[0]), *rhs = static_cast<const char *>(operands[1]);
  auto *out = static_cast<char *>(result(operands));
  if (spec.isGeluGrad)
    ZC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands[2]));
  if (mayAddBias())
    ZC_RETURN_IF_ERROR(setBias(way->addsBias ? operands[2] : nullptr));
  const bool isBiasBefore = spec.shape.hasBias && !way->addsBias;
  if (isBiasBefore)
    ZC_RETURN_IF_ERROR(fillBias(operands, stream));
  const bool adds = spec.hasAddend || isBiasBefore;
  const char *addend = spec.hasAddend ? static_cast<const char *>(operands[2]) : out;
  const double one = 1, zero = 0;
  const float oneFloat = 1, zeroFloat = 0;
  bool isDouble = spec.shape.dtype == DType::f64;
  const void *alpha = isDouble ? static_cast<const void *>(&one) : &oneFloat;
  const void *beta = adds ? alpha : (isDouble ? static_cast<const void *>(&zero) : &zeroFloat);
  void *workspace = spec.workspace ? operands[hasThird() ? 4 : 3] : nullptr;
  int64_t size = sizeOf(spec.shape.dtype), outSize = sizeOf(spec.out);
  for (const LtProduct::Offsets &at : product.calls) {
    const char *a = rhs + at.rhs * size, *b = lhs + at.lhs * size, *c = addend + at.out * outSize;
    char *d = out + at.out * outSize;
    ZC_CUBLAS(lt.matmul(handle, made.operation, alpha, a, made.layouts[0], b, made.layouts[1], beta, c, made.layouts[2],
                        d, made.layouts[2], &way->algorithm, workspace, spec.workspace, stream),
              what());
  }
  return {};
}

using Part = std::unique_ptr<GpuKernel>;

/// A product with a gelu's gradient: in one, or, where the library has not that or operands lie elsewhere, in two.
class LinearKernel : public GpuKernel {
public:
  LinearKernel(std::unique_ptr<LtMatmul> whole, std::string why, Part product, Part activation, bool hasWorkspace)
      : whole(std::move(whole)), why(std::move(why)), product(std::move(product)), activation(std::move(activation)),
        hasWorkspace(hasWorkspace) {}
  Status enqueue(void *const *operands, const Frame &frame, cudaStream_t stream) override {
    if (whole && whole->takes(operands))
      return whole->enqueue(operands, frame, stream);
    ZC_RETURN_IF_ERROR(product->enqueue(shapes::productOperands(operands, hasWorkspace).data(), frame, stream));
    return activation->enqueue(shapes::activationOperands(operands).data(), frame, stream);
  }
  std::string note() const override { return why; }

private:
  std::unique_ptr<LtMatmul> whole; ///< null: there is none
  std::string why;
  Part product, activation;
  bool hasWorkspace;
};

Result<Part> prepareLinear(const KernelSpec &spec, const GpuKernelFactory &multiplies,
                           const GpuKernelFactory &activates) {
  Result<shapes::LinearParts> parts = shapes::LinearParts::of(spec);
  ZC_RETURN_IF_ERROR(parts.status());
  Result<Part> product = multiplies(parts->product);
  ZC_RETURN_IF_ERROR(product.status());
  Result<Part> activation = activates(parts->activation);
  ZC_RETURN_IF_ERROR(activation.status());
  Result<shapes::MatmulShape> shape = shapes::readMatmul(parts->product);
  ZC_RETURN_IF_ERROR(shape.status());
  std::unique_ptr<LtMatmul> whole;
  std::string why;
  if (sizeOf(shape->dtype) == 2 && shape->m * shape->n * shape->k != 0) {
    ProductSpec both(spec, *shape);
    both.isGeluGrad = true;
    whole = std::make_unique<LtMatmul>(std::move(both));
    if (Status status = whole->prepare(); !status.ok()) {
      why = "kernel '" + spec.name + "' runs as two: " + status.error().message;
      whole.reset();
    }
  }
  return Part(std::make_unique<LinearKernel>(std::move(whole), std::move(why), std::move(*product),
                                             std::move(*activation), spec.workspace > 0));
}

Result<std::unique_ptr<GpuKernel>> prepared(ProductSpec spec) {
  auto kernel = std::make_unique<LtMatmul>(std::move(spec));
  ZC_RETURN_IF_ERROR(kernel->prepare());
  return std::unique_ptr<GpuKernel>(std::move(kernel));
}

} // namespace

void addMatmul(GpuKernelRegistry &registry) {
  registry.add("matmul", [](const KernelSpec &spec) -> Result<std::unique_ptr<GpuKernel>> {
    Result<shapes::MatmulShape> shape = shapes::readMatmul(spec);
    ZC_RETURN_IF_ERROR(shape.status());
    return prepared({spec, *shape});
  });
  registry.add("matmul_part", [](const KernelSpec &spec) -> Result<std::unique_ptr<GpuKernel>> {
    Result<shapes::MatmulPartShape> part = shapes::readMatmulPart(spec);
    ZC_RETURN_IF_ERROR(part.status());
    ProductSpec product(spec, part->product);
    product.out = part->out;
    product.hasAddend = part->hasAddend;
    return prepared(std::move(product));
  });
  registry.add("linear_gelu_grad", [multiplies = *registry.find("matmul"), activates = *registry.find("gelu_grad")](
                                       const KernelSpec &spec) { return prepareLinear(spec, multiplies, activates); });
}

} // namespace zc::cuda
