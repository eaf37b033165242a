// fp32 products: panels of rows, of columns or of terms on threads, or whole matrices of a batch; the bias row is added
// to each panel by the thread that made it.
#include "kernels/cpu/fast/MatmulF32.h"
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {

ProductF32::ProductF32(const KernelSpec &spec, const MatmulShape &shape, ProductChoice choice)
    : s(shape), library(choice.method == ProductMethod::openblas ? GemmLibrary::openblas : GemmLibrary::onednn),
      cut(choice.cut), threads(s.numBatches * s.m * s.n * s.k < kParallelProducts ? 1 : spec.threads) {
  if (cut != ProductCut::depth)
    return;
  threads = std::min(threads, DepthSums::kMost);
  sums = Workspace(spec).take<float>((threads - 1) * s.m * s.n);
}

void ProductF32::multiply(const float *lhs, const float *rhs, float beta, float *out, const Block &b) const {
  const int64_t lhsWidth = s.transLhs ? s.m : s.k, rhsWidth = s.transRhs ? s.k : s.n;
  lhs += s.transLhs ? b.k0 * lhsWidth + b.i0 : b.i0 * lhsWidth + b.k0;
  rhs += s.transRhs ? b.j0 * rhsWidth + b.k0 : b.k0 * rhsWidth + b.j0;
  gemm(library, s.transLhs, s.transRhs, b.i1 - b.i0, b.j1 - b.j0, b.k1 - b.k0, 1, lhs, lhsWidth, rhs, rhsWidth, beta,
       out + b.i0 * s.n + b.j0, s.n);
}

void ProductF32::addBias(const float *bias, float *out, int64_t i0, int64_t i1, int64_t j0, int64_t j1) const {
  if (!bias)
    return;
  for (int64_t i = i0; i < i1; ++i)
    for (int64_t j = j0; j < j1; ++j)
      out[i * s.n + j] += bias[j];
}

void ProductF32::byDepth(const float *lhs, const float *rhs, const float *bias, float beta, float *out,
                         void *const *operands) const {
  const int64_t elements = s.m * s.n;
  parallelParts(threads, s.k, kPanel, [&](int64_t begin, int64_t end, int part) {
    float *to = part == 0 ? out : sums.of(operands) + (part - 1) * elements;
    multiply(lhs, rhs, part == 0 ? beta : 0, to, {0, s.m, 0, s.n, begin, end});
  });
  // As many parts have terms as there are threads, or panels of terms (DepthSums::canPay: more than 16).
  parallelRanges(threadsFor(threads, elements), elements, kPieceElements, [&](int64_t begin, int64_t end, int) {
    for (int part = 1; part < threads; ++part)
      for (int64_t i = begin; i < end; ++i)
        out[i] += sums.of(operands)[(part - 1) * elements + i];
  });
  addBias(bias, out, 0, s.m, 0, s.n);
}

void ProductF32::run(const float *lhs, const float *rhs, const float *bias, float beta, float *out,
                     void *const *operands) const {
  auto panel = [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
    multiply(lhs, rhs, beta, out, {i0, i1, j0, j1, 0, s.k});
    addBias(bias, out, i0, i1, j0, j1);
  };
  if (cut == ProductCut::depth && threads > 1)
    byDepth(lhs, rhs, bias, beta, out, operands);
  else if (cut == ProductCut::rows)
    parallelParts(threads, s.m, kPanel, [&](int64_t begin, int64_t end, int) { panel(begin, end, 0, s.n); });
  else if (cut == ProductCut::columns)
    parallelParts(threads, s.n, kPanel, [&](int64_t begin, int64_t end, int) { panel(0, s.m, begin, end); });
  else
    panel(0, s.m, 0, s.n);
}

namespace {

class MatmulF32 : public Kernel {
public:
  MatmulF32(const KernelSpec &spec, const MatmulShape &shape, ProductChoice choice, std::string method)
      : s(shape), product(spec, shape, choice), text(std::move(method)),
        threads(choice.cut == ProductCut::batch && s.numBatches * s.m * s.n * s.k >= kParallelProducts ? spec.threads
                                                                                                       : 1) {
    Walk<2>(s.batch, {s.lhsStrides, s.rhsStrides}).forEach([&](const Walk<2>::Offsets &at) { offsets.push_back(at); });
  }

  Status run(void *const *operands, const StepContext &) override {
    const float *bias = s.hasBias ? as<float>(operands[2]) : nullptr;
    parallelRanges(threads, s.numBatches, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t b = begin; b < end; ++b) {
        const auto &at = offsets[static_cast<size_t>(b)];
        product.run(as<float>(operands[0]) + at[0], as<float>(operands[1]) + at[1], bias, 0,
                    as<float>(operands[s.hasBias ? 3 : 2]) + b * s.m * s.n, operands);
      }
    });
    return Status::success();
  }
  std::string method() const override { return text; }

private:
  MatmulShape s;
  ProductF32 product;
  std::string text;
  int threads;                           ///< that share the batch
  std::vector<Walk<2>::Offsets> offsets; ///< of each batch's lhs and rhs
};

/// Part of a product, on top of the addend.
class MatmulPartF32 : public Kernel {
public:
  MatmulPartF32(const KernelSpec &spec, const MatmulPartShape &shape, ProductChoice choice, std::string method)
      : elements(shape.product.m * shape.product.n), hasAddend(shape.hasAddend), threads(spec.threads),
        product(spec, shape.product, choice), text(std::move(method)) {}

  Status run(void *const *operands, const StepContext &) override {
    auto *out = as<float>(operands[hasAddend ? 3 : 2]);
    if (hasAddend && operands[2] != out)
      parallelRanges(threads, elements, 4096, [&](int64_t begin, int64_t end, int) {
        std::copy(as<float>(operands[2]) + begin, as<float>(operands[2]) + end, out + begin);
      });
    product.run(as<float>(operands[0]), as<float>(operands[1]), nullptr, hasAddend ? 1 : 0, out, operands);
    return Status::success();
  }
  std::string method() const override { return text; }

private:
  int64_t elements;
  bool hasAddend;
  int threads;
  ProductF32 product;
  std::string text;
};

} // namespace

std::unique_ptr<Kernel> makeMatmulF32(const KernelSpec &spec, const MatmulShape &shape, ProductChoice choice,
                                      std::string method) {
  return std::make_unique<MatmulF32>(spec, shape, choice, std::move(method));
}

std::unique_ptr<Kernel> makeMatmulPartF32(const KernelSpec &spec, const MatmulPartShape &shape, ProductChoice choice,
                                          std::string method) {
  return std::make_unique<MatmulPartF32>(spec, shape, choice, std::move(method));
}

} // namespace zc::cpu
