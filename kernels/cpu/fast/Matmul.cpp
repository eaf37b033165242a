// matmul. fp32: single-threaded library products on panels of the longer side, or on whole matrices of a batch; the
// bias row is added to each panel by the thread that made it. bf16: oneDNN, sums in fp32; where it has no kernel for
// the CPU (without AVX-512), blocks widened to fp32 and multiplied as above.
#include "kernels/cpu/Shapes.h"
#include "kernels/cpu/fast/Convert.h"
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

/// bf16 without a bf16 library: panels of the longer side on threads, each in blocks that are widened into scratch.
class MatmulWidened : public Kernel {
public:
  MatmulWidened(const MatmulShape &shape, int threads)
      : s(shape), threads(s.m * s.n * s.k < kParallelProducts ? 1 : threads),
        scratch(static_cast<size_t>(this->threads) * 3 * kBlock * kBlock) {
    Walk<2>(s.batch, {s.lhsStrides, s.rhsStrides}).forEach([&](const Walk<2>::Offsets &at) { offsets.push_back(at); });
  }

  Status run(void *const *operands, const StepContext &) override {
    const Bf16 *bias = s.hasBias ? as<Bf16>(operands[2]) : nullptr;
    Bf16 *out = as<Bf16>(operands[s.hasBias ? 3 : 2]);
    for (const auto &at : offsets) {
      const Bf16 *lhs = as<Bf16>(operands[0]) + at[0], *rhs = as<Bf16>(operands[1]) + at[1];
      bool byRows = s.m >= s.n;
      parallelParts(threads, byRows ? s.m : s.n, kPanel, [&](int64_t begin, int64_t end, int part) {
        float *own = scratch.data() + part * 3 * kBlock * kBlock;
        for (int64_t i = byRows ? begin : 0; i < (byRows ? end : s.m); i += kBlock)
          for (int64_t j = byRows ? 0 : begin; j < (byRows ? s.n : end); j += kBlock)
            block(lhs, rhs, bias, out, i, std::min(i + kBlock, byRows ? end : s.m), j,
                  std::min(j + kBlock, byRows ? s.n : end), own);
      });
      out += s.m * s.n;
    }
    return Status::success();
  }

private:
  static constexpr int64_t kBlock = 384;

  /// Rows [r0, r1) and columns [c0, c1) of a matrix stored `width` wide, as fp32.
  static void widenBlock(const Bf16 *x, int64_t width, int64_t r0, int64_t r1, int64_t c0, int64_t c1, float *y) {
    for (int64_t r = r0; r < r1; ++r)
      widen(x + r * width + c0, y + (r - r0) * (c1 - c0), c1 - c0);
  }

  void block(const Bf16 *lhs, const Bf16 *rhs, const Bf16 *bias, Bf16 *out, int64_t i0, int64_t i1, int64_t j0,
             int64_t j1, float *own) const {
    float *a = own, *b = own + kBlock * kBlock, *c = b + kBlock * kBlock;
    int64_t rows = i1 - i0, columns = j1 - j0;
    for (int64_t k0 = 0; k0 < s.k; k0 += kBlock) {
      int64_t k1 = std::min(k0 + kBlock, s.k), depth = k1 - k0;
      s.transLhs ? widenBlock(lhs, s.m, k0, k1, i0, i1, a) : widenBlock(lhs, s.k, i0, i1, k0, k1, a);
      s.transRhs ? widenBlock(rhs, s.k, j0, j1, k0, k1, b) : widenBlock(rhs, s.n, k0, k1, j0, j1, b);
      gemm(s.transLhs, s.transRhs, rows, columns, depth, 1, a, s.transLhs ? rows : depth, b,
           s.transRhs ? depth : columns, k0 == 0 ? 0 : 1, c, columns);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; bias && j < columns; ++j)
        c[i * columns + j] += load(bias[j0 + j]);
      narrow(c + i * columns, out + (i0 + i) * s.n + j0, columns);
    }
  }

  MatmulShape s;
  int threads;
  std::vector<float> scratch;
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
    return std::unique_ptr<Kernel>(std::make_unique<MatmulWidened>(shape, spec.threads));
  return std::unique_ptr<Kernel>(std::make_unique<MatmulBf16>(shape, std::move(product), isWhole));
}

} // namespace

void addFastMatmul(Overlay &overlay) { overlay.add("matmul", prepareMatmul); }

} // namespace zc::cpu
