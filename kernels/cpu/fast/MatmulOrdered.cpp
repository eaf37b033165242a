// Sums in order of k: each element is one chain of multiply-adds, so that blocks are free to be what is fast. Four rows
// by two vectors stay in registers over all of k.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/MatmulOrdered.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#ifndef ZC_FAST_MATMUL_ORDERED
#define ZC_FAST_MATMUL_ORDERED
namespace zc::cpu {
/// Element (i, p) of the left factor lies at i * row + p * step; the right factor and the sums are row major.
struct OrderedFactors {
  const float *lhs, *rhs;
  float *sums; ///< what is added to, then the result
  int64_t row, step, n, k;
};
} // namespace zc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// `rows` rows from i on, columns [j, j + left + right), each part at most a vector.
template <int rows> HWY_INLINE void block(const OrderedFactors &f, int64_t i, int64_t j, size_t left, size_t right) {
  V first[rows], second[rows];
  const auto next = static_cast<int64_t>(left);
  for (int r = 0; r < rows; ++r) {
    first[r] = loadPart(f.sums + (i + r) * f.n + j, left);
    second[r] = right ? loadPart(f.sums + (i + r) * f.n + j + next, right) : hn::Zero(kF);
  }
  for (int64_t p = 0; p < f.k; ++p) {
    const float *from = f.rhs + p * f.n + j;
    const V b0 = loadPart(from, left), b1 = right ? loadPart(from + next, right) : b0;
    for (int r = 0; r < rows; ++r) {
      const V a = hn::Set(kF, f.lhs[(i + r) * f.row + p * f.step]);
      first[r] = hn::MulAdd(a, b0, first[r]);
      second[r] = hn::MulAdd(a, b1, second[r]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    storePart(first[r], f.sums + (i + r) * f.n + j, left);
    if (right)
      storePart(second[r], f.sums + (i + r) * f.n + j + next, right);
  }
}

template <int rows> HWY_INLINE void rowsOf(const OrderedFactors &f, int64_t i) {
  const auto step = static_cast<int64_t>(lanes());
  int64_t j = 0;
  for (; j + 2 * step <= f.n; j += 2 * step)
    block<rows>(f, i, j, lanes(), lanes());
  for (; j < f.n; j += step)
    block<rows>(f, i, j, static_cast<size_t>(std::min(step, f.n - j)), 0);
}

void multiplyRows(const OrderedFactors &f, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + 4 <= end; i += 4)
    rowsOf<4>(f, i);
  for (; i < end; ++i)
    rowsOf<1>(f, i);
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/MatmulOrdered.h"

namespace zc::cpu {
namespace {

HWY_EXPORT(multiplyRows);

class MatmulOrdered : public Kernel {
public:
  MatmulOrdered(const KernelSpec &spec, const MatmulPartShape &shape)
      : s(shape.product), hasAddend(shape.hasAddend), out(shape.out),
        threads(s.m * s.n * s.k < (1 << 16) ? 1 : spec.threads) {
    Workspace workspace(spec);
    OrderedPieces sizes(shape);
    lhs = workspace.take<float>(sizes.lhs);
    rhs = workspace.take<float>(sizes.rhs);
    sums = workspace.take<float>(sizes.sums);
  }

  Status run(void *const *operands, const StepContext &) override {
    const void *third = s.hasBias || hasAddend ? operands[2] : nullptr;
    void *result = operands[third ? 3 : 2];
    OrderedFactors f{};
    f.lhs = widened(operands[0], lhs.of(operands));
    f.row = s.transLhs ? 1 : s.k;
    f.step = s.transLhs ? s.m : 1;
    f.n = s.n;
    f.k = s.k;
    f.rhs = packed(operands[1], rhs.of(operands));
    f.sums = out == DType::f32 ? as<float>(result) : sums.of(operands);
    const int64_t elements = s.m * s.n;
    if (!hasAddend)
      std::fill(f.sums, f.sums + elements, 0.0f);
    else if (out != DType::f32)
      convertFast(out, third, DType::f32, f.sums, elements);
    else if (third != result)
      std::copy_n(static_cast<const float *>(third), elements, f.sums);
    parallelRanges(threads, s.m, 4,
                   [&](int64_t begin, int64_t end, int) { HWY_DYNAMIC_DISPATCH(multiplyRows)(f, begin, end); });
    if (s.hasBias)
      withFast(s.dtype, [&](auto tag) { addRow(f.sums, static_cast<const TypeOf<decltype(tag)> *>(third)); });
    if (out != DType::f32)
      convertFast(DType::f32, f.sums, out, result, elements);
    return Status::success();
  }

private:
  const float *widened(const void *from, float *scratch) const {
    if (!scratch)
      return static_cast<const float *>(from);
    convertFast(s.dtype, from, DType::f32, scratch, s.m * s.k);
    return scratch;
  }

  /// op(rhs), k x n.
  const float *packed(const void *from, float *scratch) const {
    if (!scratch)
      return static_cast<const float *>(from);
    withFast(s.dtype, [&](auto tag) {
      const auto *x = static_cast<const TypeOf<decltype(tag)> *>(from);
      for (int64_t p = 0; p < s.k; ++p)
        for (int64_t j = 0; j < s.n; ++j)
          scratch[p * s.n + j] = load(x[s.transRhs ? j * s.k + p : p * s.n + j]);
    });
    return scratch;
  }

  template <typename T> void addRow(float *to, const T *bias) const {
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j)
        to[i * s.n + j] += load(bias[j]);
  }

  MatmulShape s;
  bool hasAddend;
  DType out;
  int threads;
  Piece<float> lhs, rhs, sums;
};

} // namespace

std::unique_ptr<Kernel> makeMatmulOrdered(const KernelSpec &spec, const MatmulPartShape &shape) {
  return std::make_unique<MatmulOrdered>(spec, shape);
}

} // namespace zc::cpu
#endif
