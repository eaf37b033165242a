// matmul. fp32: single-threaded library products on panels of the longer side, or on whole matrices of a batch; the
// bias row is added to each panel by the thread that made it. bf16: oneDNN, sums in fp32; where it has no kernel for
// the CPU (without AVX-512), and for f16, blocks widened to fp32 and multiplied as above. Small products:
// MatmulOrdered.h.
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/Gemm.h"
#include "kernels/cpu/fast/MatmulDnnl.h"
#include "kernels/cpu/fast/MatmulOrdered.h"

#include <cstring>

namespace zc::cpu {
namespace {

/// Rows [i0, i1) and columns [j0, j1) of one product, times 1 added to `beta` times what `out` holds.
void multiplyPanel(const MatmulShape &s, const float *lhs, const float *rhs, const float *bias, float beta, float *out,
                   int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  gemm(s.transLhs, s.transRhs, i1 - i0, j1 - j0, s.k, 1, lhs + (s.transLhs ? i0 : i0 * s.k), s.transLhs ? s.m : s.k,
       rhs + (s.transRhs ? j0 * s.k : j0), s.transRhs ? s.k : s.n, beta, out + i0 * s.n + j0, s.n);
  if (!bias)
    return;
  for (int64_t i = i0; i < i1; ++i)
    for (int64_t j = j0; j < j1; ++j)
      out[i * s.n + j] += bias[j];
}

/// Products below this many multiplications stay on one thread.
constexpr int64_t kParallelProducts = 1 << 16;

/// fn(i0, i1, j0, j1) for a panel of the longer side per thread.
template <typename Fn> void forPanels(const MatmulShape &s, int threads, Fn fn) {
  if (s.m >= s.n)
    parallelParts(threads, s.m, kPanel, [&](int64_t begin, int64_t end, int) { fn(begin, end, 0, s.n); });
  else
    parallelParts(threads, s.n, kPanel, [&](int64_t begin, int64_t end, int) { fn(0, s.m, begin, end); });
}

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
      multiplyPanel(s, lhs + at[0], rhs + at[1], bias, 0, out + batch * s.m * s.n, i0, i1, j0, j1);
    };
    if (s.numBatches >= threads && s.numBatches > 1) {
      parallelParts(threads, s.numBatches, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t b = begin; b < end; ++b)
          whole(b, 0, s.m, 0, s.n);
      });
      return Status::success();
    }
    for (int64_t b = 0; b < s.numBatches; ++b)
      forPanels(s, threads, [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) { whole(b, i0, i1, j0, j1); });
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
                                      hasBias ? operands[2] : nullptr, out, operands));
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

/// bf16 without a bf16 library, and f16: panels of the longer side on threads, each in blocks that are widened into
/// scratch.
template <typename T> class MatmulWidened : public Kernel {
public:
  /// With `wide` the result is f32, added to an addend if there is one.
  MatmulWidened(const KernelSpec &spec, const MatmulShape &shape, bool wide = false, bool hasAddend = false)
      : s(shape), tile(shape), wide(wide), hasAddend(hasAddend),
        threads(s.m * s.n * s.k < kParallelProducts ? 1 : std::min(spec.threads, ProductTile::tiles(shape))),
        tiles(Workspace(spec).take<float>(tile.floats() * threads)) {
    Walk<2>(s.batch, {s.lhsStrides, s.rhsStrides}).forEach([&](const Walk<2>::Offsets &at) { offsets.push_back(at); });
  }

  Status run(void *const *operands, const StepContext &) override {
    Ends ends;
    ends.bias = s.hasBias ? as<T>(operands[2]) : nullptr;
    ends.addend = hasAddend ? as<float>(operands[2]) : nullptr;
    void *result = operands[s.hasBias || hasAddend ? 3 : 2];
    if (wide)
      ends.wide = as<float>(result);
    else
      ends.narrow = as<T>(result);
    for (const auto &at : offsets) {
      const T *lhs = as<T>(operands[0]) + at[0], *rhs = as<T>(operands[1]) + at[1];
      bool byRows = s.m >= s.n;
      parallelParts(threads, byRows ? s.m : s.n, kPanel, [&](int64_t begin, int64_t end, int part) {
        float *own = tiles.of(operands) + part * tile.floats();
        for (int64_t i = byRows ? begin : 0; i < (byRows ? end : s.m); i += kBlock)
          for (int64_t j = byRows ? 0 : begin; j < (byRows ? s.n : end); j += kBlock)
            block(lhs, rhs, ends, i, std::min(i + kBlock, byRows ? end : s.m), j,
                  std::min(j + kBlock, byRows ? s.n : end), own);
      });
      if (!wide)
        ends.narrow += s.m * s.n;
    }
    return Status::success();
  }

private:
  static constexpr int64_t kBlock = ProductTile::kBlock;

  /// What a product is added to, and where it goes.
  struct Ends {
    const T *bias = nullptr;
    const float *addend = nullptr;
    float *wide = nullptr;
    T *narrow = nullptr;
  };

  /// Rows [r0, r1) and columns [c0, c1) of a matrix stored `width` wide, as fp32.
  static void widenBlock(const T *x, int64_t width, int64_t r0, int64_t r1, int64_t c0, int64_t c1, float *y) {
    for (int64_t r = r0; r < r1; ++r)
      widen(x + r * width + c0, y + (r - r0) * (c1 - c0), c1 - c0);
  }

  void block(const T *lhs, const T *rhs, const Ends &ends, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
             float *own) const {
    float *a = own, *b = a + tile.lhs, *c = b + tile.rhs;
    int64_t rows = i1 - i0, columns = j1 - j0;
    for (int64_t i = 0; ends.addend && i < rows; ++i)
      std::copy_n(ends.addend + (i0 + i) * s.n + j0, columns, c + i * columns);
    for (int64_t k0 = 0; k0 < s.k; k0 += kBlock) {
      int64_t k1 = std::min(k0 + kBlock, s.k), depth = k1 - k0;
      s.transLhs ? widenBlock(lhs, s.m, k0, k1, i0, i1, a) : widenBlock(lhs, s.k, i0, i1, k0, k1, a);
      s.transRhs ? widenBlock(rhs, s.k, j0, j1, k0, k1, b) : widenBlock(rhs, s.n, k0, k1, j0, j1, b);
      gemm(s.transLhs, s.transRhs, rows, columns, depth, 1, a, s.transLhs ? rows : depth, b,
           s.transRhs ? depth : columns, k0 == 0 && !ends.addend ? 0 : 1, c, columns);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; ends.bias && j < columns; ++j)
        c[i * columns + j] += load(ends.bias[j0 + j]);
      if (ends.wide)
        std::copy_n(c + i * columns, columns, ends.wide + (i0 + i) * s.n + j0);
      else
        narrow(c + i * columns, ends.narrow + (i0 + i) * s.n + j0, columns);
    }
  }

  MatmulShape s;
  ProductTile tile;
  bool wide, hasAddend;
  int threads;
  Piece<float> tiles;
  std::vector<Walk<2>::Offsets> offsets;
};

/// Part of a product: panels as above, on top of the addend.
class MatmulPartF32 : public Kernel {
public:
  MatmulPartF32(const MatmulPartShape &shape, int threads)
      : s(shape.product), hasAddend(shape.hasAddend), threads(threads) {}

  Status run(void *const *operands, const StepContext &) override {
    auto *out = as<float>(operands[hasAddend ? 3 : 2]);
    if (hasAddend && operands[2] != out)
      parallelParts(threads, s.m * s.n, 4096, [&](int64_t begin, int64_t end, int) {
        std::copy(as<float>(operands[2]) + begin, as<float>(operands[2]) + end, out + begin);
      });
    forPanels(s, threads, [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
      multiplyPanel(s, as<float>(operands[0]), as<float>(operands[1]), nullptr, hasAddend ? 1 : 0, out, i0, i1, j0, j1);
    });
    return Status::success();
  }

private:
  MatmulShape s;
  bool hasAddend;
  int threads;
};

/// The same of bf16 factors.
class MatmulPartBf16 : public Kernel {
public:
  MatmulPartBf16(const MatmulPartShape &shape, std::unique_ptr<MatmulDnnl> product)
      : bytes(shape.product.m * shape.product.n * sizeOf(shape.out)), hasAddend(shape.hasAddend),
        product(std::move(product)) {}

  Status run(void *const *operands, const StepContext &) override {
    void *out = operands[hasAddend ? 3 : 2];
    if (hasAddend && operands[2] != out)
      std::memcpy(out, operands[2], static_cast<size_t>(bytes));
    return product->run(operands[0], operands[1], nullptr, out, operands);
  }

private:
  int64_t bytes;
  bool hasAddend;
  std::unique_ptr<MatmulDnnl> product;
};

std::unique_ptr<Kernel> makeWidened(const KernelSpec &spec, const MatmulShape &shape, bool wide = false,
                                    bool hasAddend = false) {
  if (shape.dtype == DType::f16)
    return std::make_unique<MatmulWidened<F16>>(spec, shape, wide, hasAddend);
  return std::make_unique<MatmulWidened<Bf16>>(spec, shape, wide, hasAddend);
}

/// The libraries index with 32 bits.
bool fitsLibrary(const MatmulShape &s) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  return isFast(s.dtype) && s.m <= limit && s.n <= limit && s.k <= limit;
}

Prepared prepareMatmulPart(const KernelSpec &spec, std::string &note) {
  Result<MatmulPartShape> read = readMatmulPart(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const MatmulShape &shape = read->product;
  // A 16-bit addend has lost what the whole would have kept: the plain kernel's sums are as good.
  if (!fitsLibrary(shape) || shape.m * shape.n * shape.k == 0 || (read->hasAddend && read->out != DType::f32))
    return decline();
  if (isOrdered(read->whole) && isOrdered(static_cast<double>(shape.m) * shape.n * shape.k))
    return makeMatmulOrdered(spec, *read);
  if (shape.dtype == DType::f32)
    return std::unique_ptr<Kernel>(std::make_unique<MatmulPartF32>(*read, spec.threads));
  auto product = prepareDnnl(spec, shape, 1, note, read->out, read->hasAddend);
  if (!product)
    return makeWidened(spec, shape, read->out == DType::f32, read->hasAddend);
  return std::unique_ptr<Kernel>(std::make_unique<MatmulPartBf16>(*read, std::move(product)));
}

Prepared prepareMatmul(const KernelSpec &spec, std::string &note) {
  Result<MatmulShape> read = readMatmul(spec);
  ZC_RETURN_IF_ERROR(read.status());
  MatmulShape shape = foldedBatch(*read);
  if (!fitsLibrary(shape))
    return decline();
  if (shape.numBatches == 1 && isOrdered(static_cast<double>(shape.m) * shape.n * shape.k))
    return makeMatmulOrdered(spec, {shape, false, shape.dtype, 0});
  if (shape.dtype == DType::f32)
    return std::unique_ptr<Kernel>(std::make_unique<MatmulF32>(shape, spec.threads));
  if (shape.numBatches * shape.m * shape.n * shape.k == 0)
    return decline();
  bool isWhole = isRowMajorBatch(shape.lhsStrides, shape.batch, shape.m * shape.k) &&
                 isRowMajorBatch(shape.rhsStrides, shape.batch, shape.k * shape.n);
  auto product = prepareDnnl(spec, shape, isWhole ? shape.numBatches : 1, note);
  if (!product)
    return makeWidened(spec, shape);
  return std::unique_ptr<Kernel>(std::make_unique<MatmulBf16>(shape, std::move(product), isWhole));
}

} // namespace

void addFastMatmul(KernelRegistry &registry) {
  registry.addNoting("matmul", prepareMatmul);
  registry.addNoting("matmul_part", prepareMatmulPart);
}

} // namespace zc::cpu
