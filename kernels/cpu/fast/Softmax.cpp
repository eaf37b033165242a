// softmax, log_softmax, their gradients (along the last dimension) and cross-entropy: rows on threads, two or three
// passes over a row, which stays in cache from the first on.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Softmax.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

template <typename T> HWY_INLINE float sumExp(const T *x, int64_t n, float top) {
  const V shift = hn::Set(kF, top);
  return sumVectors(n, [&](int64_t i, size_t count)
                           HWY_ATTR { return keepFirst(expV(hn::Sub(loadPart(x + i, count), shift)), count); });
}

/// The loss of a row, and log sum e^x. Infinite maxima go as in the plain kernel: +inf and NaN give NaN, -inf gives
/// NaN. The loss is not lse - x[label]: of one that is near 0 that would leave what the rounding of large logits does.
template <typename T> float lossRow(const T *x, int64_t n, int64_t label, float *lse) {
  const float top = maxOf(x, n), logSum = std::log(sumExp(x, n, top));
  *lse = top + logSum;
  return top - load(x[label]) + logSum;
}

template <typename T> void softmaxRow(const T *x, T *y, int64_t n, bool logarithm, bool zeroMasked) {
  const float top = maxOf(x, n);
  if (zeroMasked && top == -std::numeric_limits<float>::infinity()) {
    std::memset(static_cast<void *>(y), 0, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  const float sum = sumExp(x, n, top);
  const V shift = hn::Set(kF, top), logSum = hn::Set(kF, std::log(sum)), inverse = hn::Set(kF, 1 / sum);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    const V shifted = hn::Sub(loadPart(x + i, count), shift);
    storePart(logarithm ? hn::Sub(shifted, logSum) : hn::Mul(expV(shifted), inverse), y + i, count);
  });
}

template <typename T> void softmaxGradRow(const T *g, const T *y, T *d, int64_t n, bool logarithm) {
  const float total = sumVectors(n, [&](int64_t i, size_t count) HWY_ATTR {
    const V grad = loadPart(g + i, count);
    return logarithm ? grad : hn::Mul(grad, loadPart(y + i, count));
  });
  const V sum = hn::Set(kF, total);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    const V grad = loadPart(g + i, count), out = loadPart(y + i, count);
    storePart(logarithm ? hn::NegMulAdd(expV(out), sum, grad) : hn::Mul(out, hn::Sub(grad, sum)), d + i, count);
  });
}

/// d = (e^(x - lse) - [c == label]) * factor.
template <typename T> void lossGradRow(const T *x, T *d, int64_t n, float lse, int64_t label, float factor) {
  const float atLabel = load(x[label]); // d may lie over x
  const V shift = hn::Set(kF, lse), scale = hn::Set(kF, factor);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(hn::Mul(expV(hn::Sub(loadPart(x + i, count), shift)), scale), d + i, count);
  });
  d[label] = store<T>((std::exp(atLabel - lse) - 1) * factor);
}

float lossTyped(DType type, const void *x, int64_t n, int64_t label, float *lse) {
  return withFast(type,
                  [&](auto tag) { return lossRow(static_cast<const TypeOf<decltype(tag)> *>(x), n, label, lse); });
}
void softmaxTyped(DType type, const void *x, void *y, int64_t n, bool logarithm, bool zeroMasked) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    softmaxRow(static_cast<const T *>(x), static_cast<T *>(y), n, logarithm, zeroMasked);
  });
}
void softmaxGradTyped(DType type, const void *g, const void *y, void *d, int64_t n, bool logarithm) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    softmaxGradRow(static_cast<const T *>(g), static_cast<const T *>(y), static_cast<T *>(d), n, logarithm);
  });
}
void lossGradTyped(DType type, const void *x, void *d, int64_t n, float lse, int64_t label, float factor) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    lossGradRow(static_cast<const T *>(x), static_cast<T *>(d), n, lse, label, factor);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/Labels.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {
HWY_EXPORT(lossTyped);
HWY_EXPORT(softmaxTyped);
HWY_EXPORT(softmaxGradTyped);
HWY_EXPORT(lossGradTyped);

namespace {

template <typename T> T *row(void *base, int64_t r, int64_t n) { return static_cast<T *>(base) + r * n; }

Prepared prepareSoftmax(const KernelSpec &spec, bool logarithm) {
  Result<AxisShape> read = readAxis(spec, 1);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || read->inner != 1)
    return decline();
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    bool zeroMasked = spec.getInt("zero_masked", 0) != 0;
    return makeKernel([=, s = *read, threads = threadsFor(spec.threads, read->outer * read->n)](void *const *operands,
                                                                                                const StepContext &) {
      parallelRanges(threads, s.outer, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r)
          HWY_DYNAMIC_DISPATCH(softmaxTyped)(s.dtype, row<T>(operands[0], r, s.n), row<T>(operands[1], r, s.n), s.n,
                                             logarithm, zeroMasked);
      });
    });
  });
}

Prepared prepareSoftmaxGrad(const KernelSpec &spec, bool logarithm) {
  Result<AxisShape> read = readAxis(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || read->inner != 1)
    return decline();
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([=, s = *read, threads = threadsFor(spec.threads, read->outer * read->n)](void *const *operands,
                                                                                                const StepContext &) {
      parallelRanges(threads, s.outer, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r)
          HWY_DYNAMIC_DISPATCH(softmaxGradTyped)(s.dtype, row<T>(operands[0], r, s.n), row<T>(operands[1], r, s.n),
                                                 row<T>(operands[2], r, s.n), s.n, logarithm);
      });
    });
  });
}

/// A kernel over rows of logits whose labels, at operand `labelsAt`, have been checked: body(rows, labels,
/// Tag<storage>).
struct LabelledRows {
  CrossEntropyShape s;
  int threads;
  int64_t count; ///< of rows that are not ignored
  void *const *operands;
  double divisor() const { return s.sum ? 1.0 : static_cast<double>(count); }
};
template <typename Body>
Prepared prepareLabelled(const KernelSpec &spec, const Result<CrossEntropyShape> &read, size_t labelsAt, Body body) {
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || read->stat != DType::f32 || read->classes < 1)
    return decline();
  return withFast(read->dtype, [&](auto tag) {
    return withIndex(read->label, [&](auto labelTag) {
      return makeKernel([=, s = *read, threads = threadsFor(spec.threads, read->rows * read->classes)](
                            void *const *operands, const StepContext &) -> Status {
        const auto *labels = as<TypeOf<decltype(labelTag)>>(operands[labelsAt]);
        Result<int64_t> count = countLabels(spec, s, labels);
        ZC_RETURN_IF_ERROR(count.status());
        body(LabelledRows{s, threads, *count, operands}, labels, tag);
        return Status::success();
      });
    });
  });
}

Prepared prepareCrossEntropy(const KernelSpec &spec) {
  return prepareLabelled(spec, readCrossEntropy(spec), 1, [](const LabelledRows &rows, const auto *labels, auto tag) {
    using T = TypeOf<decltype(tag)>;
    const CrossEntropyShape &s = rows.s;
    void *const *operands = rows.operands;
    float *lse = as<float>(operands[3]);
    std::array<double, 256> sums{}; // of runs of rows, which are the same whatever the threads
    const int64_t run = (s.rows + int64_t(sums.size()) - 1) / int64_t(sums.size());
    parallelRanges(rows.threads, int64_t(sums.size()), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin * run; r < std::min(end * run, s.rows); ++r) {
        const bool counts = labels[r] != s.ignoreIndex;
        float loss = HWY_DYNAMIC_DISPATCH(lossTyped)(s.dtype, row<T>(operands[0], r, s.classes), s.classes,
                                                     counts ? int64_t(labels[r]) : 0, lse + r);
        sums[static_cast<size_t>(r / run)] += counts ? loss : 0;
      }
    });
    *as<float>(operands[2]) = static_cast<float>(std::accumulate(sums.begin(), sums.end(), 0.0) / rows.divisor());
  });
}

Prepared prepareCrossEntropyGrad(const KernelSpec &spec) {
  return prepareLabelled(spec, readCrossEntropyGrad(spec), 2,
                         [](const LabelledRows &rows, const auto *labels, auto tag) {
                           using T = TypeOf<decltype(tag)>;
                           const CrossEntropyShape &s = rows.s;
                           void *const *operands = rows.operands;
                           const float *lse = as<float>(operands[3]);
                           auto factor = static_cast<float>(*as<float>(operands[0]) / rows.divisor());
                           parallelRanges(rows.threads, s.rows, 1, [&](int64_t begin, int64_t end, int) {
                             for (int64_t r = begin; r < end; ++r) {
                               T *d = row<T>(operands[4], r, s.classes);
                               if (labels[r] == s.ignoreIndex)
                                 std::memset(static_cast<void *>(d), 0, static_cast<size_t>(s.classes) * sizeof(T));
                               else
                                 HWY_DYNAMIC_DISPATCH(lossGradTyped)(s.dtype, row<T>(operands[1], r, s.classes), d,
                                                                     s.classes, lse[r], labels[r], factor);
                             }
                           });
                         });
}

} // namespace

void addFastSoftmax(KernelRegistry &registry) {
  registry.add("softmax", [](const KernelSpec &spec) { return prepareSoftmax(spec, false); });
  registry.add("log_softmax", [](const KernelSpec &spec) { return prepareSoftmax(spec, true); });
  registry.add("softmax_grad", [](const KernelSpec &spec) { return prepareSoftmaxGrad(spec, false); });
  registry.add("log_softmax_grad", [](const KernelSpec &spec) { return prepareSoftmaxGrad(spec, true); });
  registry.add("cross_entropy", prepareCrossEntropy);
  registry.add("cross_entropy_grad", prepareCrossEntropyGrad);
}

} // namespace zc::cpu
#endif
