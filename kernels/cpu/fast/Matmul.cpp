// matmul. fp32: single-threaded library products on panels of the longer side, or on whole matrices of a batch; the
// bias row is added to each panel by the thread that made it. bf16: oneDNN, sums in fp32.
#include "kernels/cpu/Shapes.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/Gemm.h"
#include "kernels/cpu/fast/MatmulDnnl.h"

namespace zc::cpu {
namespace {

bool isRowMajorBatch(const Dims &strides, const Dims &batch, int64_t matrix) {
  Dims whole = rowMajorStrides(batch);
  for (size_t i = 0; i < batch.size(); ++i)
    if (batch[i] != 1 && strides[i] != whole[i] * matrix)
      return false;
  return true;
}

/// x [B, T, C] times one matrix is a single product of B * T rows: a batch whose rhs is shared is folded into m.
MatmulShape folded(MatmulShape s) {
  bool shared = std::all_of(s.rhsStrides.begin(), s.rhsStrides.end(), [](int64_t stride) { return stride == 0; });
  if (s.numBatches > 1 && shared && !s.transLhs && isRowMajorBatch(s.lhsStrides, s.batch, s.m * s.k)) {
    s.m *= s.numBatches;
    s.numBatches = 1;
    s.batch.clear();
    s.lhsStrides.clear();
    s.rhsStrides.clear();
  }
  return s;
}

/// Rows [i0, i1) and columns [j0, j1) of one product.
void multiplyPanel(const MatmulShape &s, const float *lhs, const float *rhs, const float *bias, float *out, int64_t i0,
                   int64_t i1, int64_t j0, int64_t j1) {
  gemm(s.transLhs, s.transRhs, i1 - i0, j1 - j0, s.k, 1, lhs + (s.transLhs ? i0 : i0 * s.k), s.transLhs ? s.m : s.k,
       rhs + (s.transRhs ? j0 * s.k : j0), s.transRhs ? s.k : s.n, 0, out + i0 * s.n + j0, s.n);
  if (!bias)
    return;
  for (int64_t i = i0; i < i1; ++i)
    for (int64_t j = j0; j < j1; ++j)
      out[i * s.n + j] += bias[j];
}

/// Products below this many multiplications stay on one thread.
constexpr int64_t kParallelProducts = 1 << 16;
constexpr int64_t kPanel = 64;

class MatmulF32 : public Kernel {
public:
  MatmulF32(const MatmulShape &shape, int threads)
      : s(shape), batches(s.batch, {s.lhsStrides, s.rhsStrides}),
        threads(s.numBatches * s.m * s.n * s.k < kParallelProducts ? 1 : threads) {
    batches.forEach([&](const Walk<2>::Offsets &at) { offsets.push_back(at); });
  }

  Status run(void *const *operands, const StepContext &) override {
    const float *lhs = as<float>(operands[0]), *rhs = as<float>(operands[1]);
    const float *bias = s.hasBias ? as<float>(operands[2]) : nullptr;
    float *out = as<float>(operands[s.hasBias ? 3 : 2]);
    auto whole = [&](int64_t batch, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
      const auto &at = offsets[static_cast<size_t>(batch)];
      multiplyPanel(s, lhs + at[0], rhs + at[1], bias, out + batch * s.m * s.n, i0, i1, j0, j1);
    };
    if (s.numBatches >= threads && s.numBatches > 1) {
      parallelParts(threads, s.numBatches, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t b = begin; b < end; ++b)
          whole(b, 0, s.m, 0, s.n);
      });
      return Status::success();
    }
    for (int64_t b = 0; b < s.numBatches; ++b)
      if (s.m >= s.n)
        parallelParts(threads, s.m, kPanel, [&](int64_t begin, int64_t end, int) { whole(b, begin, end, 0, s.n); });
      else
        parallelParts(threads, s.n, kPanel, [&](int64_t begin, int64_t end, int) { whole(b, 0, s.m, begin, end); });
    return Status::success();
  }

private:
  MatmulShape s;
  Walk<2> batches;
  std::vector<Walk<2>::Offsets> offsets; ///< of each batch's lhs and rhs
  int threads;
};

class MatmulBf16 : public Kernel {
public:
  MatmulBf16(const MatmulShape &s, std::unique_ptr<MatmulDnnl> product, bool isWhole)
      : hasBias(s.hasBias), matrix(s.m * s.n), product(std::move(product)) {
    if (isWhole)
      offsets.push_back({0, 0});
    else
      Walk<2>(s.batch, {s.lhsStrides, s.rhsStrides}).forEach([&](const Walk<2>::Offsets &at) {
        offsets.push_back(at);
      });
  }

  Status run(void *const *operands, const StepContext &) override {
    Bf16 *out = as<Bf16>(operands[hasBias ? 3 : 2]);
    for (const auto &at : offsets) {
      ZC_RETURN_IF_ERROR(product->run(as<Bf16>(operands[0]) + at[0], as<Bf16>(operands[1]) + at[1],
                                      hasBias ? operands[2] : nullptr, out));
      out += matrix;
    }
    return Status::success();
  }

private:
  bool hasBias;
  int64_t matrix;
  std::unique_ptr<MatmulDnnl> product;
  std::vector<Walk<2>::Offsets> offsets;
};

Prepared prepareMatmul(const KernelSpec &spec) {
  Result<MatmulShape> read = readMatmul(spec);
  ZC_RETURN_IF_ERROR(read.status());
  MatmulShape shape = folded(*read);
  constexpr int64_t limit = std::numeric_limits<int32_t>::max(); // of the libraries' indices
  if (!isFast(shape.dtype) || shape.m > limit || shape.n > limit || shape.k > limit)
    return decline();
  if (shape.dtype == DType::f32)
    return std::unique_ptr<Kernel>(std::make_unique<MatmulF32>(shape, spec.threads));
  if (shape.numBatches * shape.m * shape.n * shape.k == 0)
    return decline();
  bool isWhole = isRowMajorBatch(shape.lhsStrides, shape.batch, shape.m * shape.k) &&
                 isRowMajorBatch(shape.rhsStrides, shape.batch, shape.k * shape.n);
  auto product = prepareDnnl(shape, isWhole ? shape.numBatches : 1, spec.threads);
  if (!product)
    return decline();
  return std::unique_ptr<Kernel>(std::make_unique<MatmulBf16>(shape, std::move(product), isWhole));
}

} // namespace

void addFastMatmul(Overlay &overlay) { overlay.add("matmul", prepareMatmul); }

} // namespace zc::cpu
