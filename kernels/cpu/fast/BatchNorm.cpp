// batch_norm, its gradient and its evaluation form: channels on threads. A channel is `batch` runs of `inner` elements;
// runs are summed in fp32 vectors, the runs' sums in double. Statistics by two passes, as in the plain kernel.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/BatchNorm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/ChannelRuns-inl.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// dx = factor (g - meanGrad - (x - mean) slope)
template <typename T>
void gradRun(const T *g, const T *x, T *dx, int64_t n, float mean, float factor, float meanGrad, float slope) {
  const V m = hn::Set(kF, mean), f = hn::Set(kF, factor), a = hn::Set(kF, meanGrad), b = hn::Set(kF, slope);
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    const V centred = hn::Sub(loadPart(x + i, c), m);
    storePart(hn::Mul(f, hn::Sub(hn::Sub(loadPart(g + i, c), a), hn::Mul(centred, b))), dx + i, c);
  });
}

/// A channel: `batch` runs, `stride` elements apart.
template <typename T>
void normChannel(const T *x, T *y, int64_t batch, int64_t stride, int64_t n, double epsilon, float scale, float bias,
                 float *meanOut, float *varianceOut) {
  const auto count = static_cast<double>(batch * n);
  double sum = 0, squares = 0;
  for (int64_t b = 0; b < batch; ++b)
    sum += sumRun(x + b * stride, n);
  const auto mean = static_cast<float>(sum / count);
  for (int64_t b = 0; b < batch; ++b)
    squares += squaresRun(x + b * stride, n, mean);
  const double variance = squares / count;
  const auto factor = static_cast<float>(scale / std::sqrt(variance + epsilon));
  for (int64_t b = 0; b < batch; ++b)
    affineRun(x + b * stride, y + b * stride, n, mean, factor, bias);
  *meanOut = mean;
  *varianceOut = static_cast<float>(variance);
}
template <typename T>
void gradChannel(const T *g, const T *x, T *dx, int64_t batch, int64_t stride, int64_t n, double epsilon, float scale,
                 float mean, float variance, float *dScale, float *dBias) {
  const auto count = static_cast<double>(batch * n);
  const double invStd = 1 / std::sqrt(variance + epsilon);
  double products = 0, sum = 0;
  for (int64_t b = 0; b < batch; ++b)
    gradSumsRun(g + b * stride, x + b * stride, n, mean, products, sum);
  for (int64_t b = 0; b < batch; ++b)
    gradRun(g + b * stride, x + b * stride, dx + b * stride, n, mean, static_cast<float>(scale * invStd),
            static_cast<float>(sum / count), static_cast<float>(products * invStd * invStd / count));
  *dScale = static_cast<float>(products * invStd);
  *dBias = static_cast<float>(sum);
}

void normTyped(DType type, const void *x, void *y, int64_t batch, int64_t stride, int64_t n, double epsilon,
               float scale, float bias, float *mean, float *variance) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    normChannel(static_cast<const T *>(x), static_cast<T *>(y), batch, stride, n, epsilon, scale, bias, mean, variance);
  });
}
void gradTyped(DType type, const void *g, const void *x, void *dx, int64_t batch, int64_t stride, int64_t n,
               double epsilon, float scale, float mean, float variance, float *dScale, float *dBias) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    gradChannel(static_cast<const T *>(g), static_cast<const T *>(x), static_cast<T *>(dx), batch, stride, n, epsilon,
                scale, mean, variance, dScale, dBias);
  });
}
void affineTyped(DType type, const void *x, void *y, int64_t n, float mean, float factor, float shift) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    affineRun(static_cast<const T *>(x), static_cast<T *>(y), n, mean, factor, shift);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/BatchNormKernel.h"
#include "kernels/shapes/Windows.h"

namespace zc::cpu {
HWY_EXPORT(normTyped);
HWY_EXPORT(gradTyped);
HWY_EXPORT(affineTyped);

namespace {

/// Runs shorter than this are not worth vectors.
constexpr int64_t kShortestRun = 8;

bool isDeclined(const BatchNormShape &s) {
  return s.channelsLast || !isFast(s.dtype) || s.inner < kShortestRun || s.batch == 0;
}
int threadsOf(const KernelSpec &spec, const BatchNormShape &s) {
  return threadsFor(spec.threads, s.batch * s.channels * s.inner);
}

Prepared prepareBatchNorm(const KernelSpec &spec) {
  return prepareBatchNormBy(readBatchNorm(spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s, threads = threadsOf(spec, s)](void *const *operands, const StepContext &) {
      parallelRanges(threads, s.channels, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t c = begin; c < end; ++c)
          HWY_DYNAMIC_DISPATCH(normTyped)(s.dtype, as<T>(operands[0]) + c * s.inner, as<T>(operands[3]) + c * s.inner,
                                          s.batch, s.channels * s.inner, s.inner, s.epsilon,
                                          load(as<T>(operands[1])[c]), load(as<T>(operands[2])[c]),
                                          as<float>(operands[4]) + c, as<float>(operands[5]) + c);
      });
    });
  });
}

Prepared prepareBatchNormGrad(const KernelSpec &spec) {
  return prepareBatchNormBy(readBatchNormGrad(spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s, threads = threadsOf(spec, s)](void *const *operands, const StepContext &) {
      parallelRanges(threads, s.channels, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t c = begin; c < end; ++c) {
          float dScale = 0, dBias = 0;
          HWY_DYNAMIC_DISPATCH(gradTyped)(s.dtype, as<T>(operands[0]) + c * s.inner, as<T>(operands[1]) + c * s.inner,
                                          as<T>(operands[5]) + c * s.inner, s.batch, s.channels * s.inner, s.inner,
                                          s.epsilon, load(as<T>(operands[2])[c]), as<float>(operands[3])[c],
                                          as<float>(operands[4])[c], &dScale, &dBias);
          as<T>(operands[6])[c] = store<T>(dScale);
          as<T>(operands[7])[c] = store<T>(dBias);
        }
      });
    });
  });
}

Prepared prepareBatchNormApply(const KernelSpec &spec) {
  return prepareBatchNormBy(readBatchNormApply(spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s, threads = threadsOf(spec, s)](void *const *operands, const StepContext &) {
      parallelRanges(threads, s.batch * s.channels, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t p = begin; p < end; ++p) {
          auto of = [&](size_t operand) { return load(as<T>(operands[operand])[p % s.channels]); };
          HWY_DYNAMIC_DISPATCH(affineTyped)(s.dtype, as<T>(operands[0]) + p * s.inner, as<T>(operands[5]) + p * s.inner,
                                            s.inner, of(3), static_cast<float>(of(1) / std::sqrt(of(4) + s.epsilon)),
                                            of(2));
        }
      });
    });
  });
}

} // namespace

void addFastBatchNorm(KernelRegistry &registry) {
  registry.add("batch_norm", prepareBatchNorm);
  registry.add("batch_norm_grad", prepareBatchNormGrad);
  registry.add("batch_norm_apply", prepareBatchNormApply);
}

} // namespace zc::cpu
#endif
