// layer_norm, rms_norm and their gradients: rows on threads, statistics in fp32 by two passes over a row in cache.
// Gradients of scale and bias are summed per thread, then over threads in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Norm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// y = (x - mean) invStd scale + bias; with `centred` false the mean is 0. `bias` may be null.
template <typename T>
void normRow(bool centred, const T *x, const T *scale, const T *bias, T *y, int64_t n, float epsilon, float *meanOut,
             float *invStdOut) {
  const auto count = static_cast<float>(n);
  const float mean =
      centred ? sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR { return loadPart(x + i, c); }) / count : 0;
  const V centre = hn::Set(kF, mean);
  const float squares = sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR {
    const V d = keepFirst(hn::Sub(loadPart(x + i, c), centre), c);
    return hn::Mul(d, d);
  });
  const float inverse = 1 / std::sqrt(squares / count + epsilon);
  const V invStd = hn::Set(kF, inverse);
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    const V normal = hn::Mul(hn::Sub(loadPart(x + i, c), centre), invStd);
    const V scaled = hn::Mul(normal, loadPart(scale + i, c));
    storePart(bias ? hn::Add(scaled, loadPart(bias + i, c)) : scaled, y + i, c);
  });
  if (meanOut)
    *meanOut = mean;
  *invStdOut = inverse;
}

/// One row of d_input; adds the row's part to dScale and (unless null) dBias. See reference/Norm.cpp for the formulas.
template <typename T>
void normGradRow(bool centred, const T *g, const T *x, const T *scale, float mean, float inverse, T *dx, int64_t n,
                 float *dScale, float *dBias) {
  const V centre = hn::Set(kF, mean), invStd = hn::Set(kF, inverse);
  const float sumU = centred
                         ? sumVectors(n, [&](int64_t i, size_t c)
                                             HWY_ATTR { return hn::Mul(loadPart(g + i, c), loadPart(scale + i, c)); })
                         : 0;
  const float sumUx = sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR {
    const V grad = loadPart(g + i, c), normal = hn::Mul(hn::Sub(loadPart(x + i, c), centre), invStd);
    const V product = hn::Mul(grad, normal);
    storePart(hn::Add(loadPart(dScale + i, c), product), dScale + i, c);
    if (dBias)
      storePart(hn::Add(loadPart(dBias + i, c), grad), dBias + i, c);
    return hn::Mul(product, loadPart(scale + i, c)); // unused lanes: grad is 0
  });
  const V meanU = hn::Set(kF, sumU / static_cast<float>(n)), meanUx = hn::Set(kF, sumUx / static_cast<float>(n));
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    const V normal = hn::Mul(hn::Sub(loadPart(x + i, c), centre), invStd);
    const V u = hn::Mul(loadPart(g + i, c), loadPart(scale + i, c));
    storePart(hn::Mul(invStd, hn::NegMulAdd(normal, meanUx, hn::Sub(u, meanU))), dx + i, c);
  });
}

void normTyped(DType type, bool centred, const void *x, const void *scale, const void *bias, void *y, int64_t n,
               float epsilon, float *mean, float *invStd) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    normRow(centred, static_cast<const T *>(x), static_cast<const T *>(scale), static_cast<const T *>(bias),
            static_cast<T *>(y), n, epsilon, mean, invStd);
  });
}
void normGradTyped(DType type, bool centred, const void *g, const void *x, const void *scale, float mean, float invStd,
                   void *dx, int64_t n, float *dScale, float *dBias) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    normGradRow(centred, static_cast<const T *>(g), static_cast<const T *>(x), static_cast<const T *>(scale), mean,
                invStd, static_cast<T *>(dx), n, dScale, dBias);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(normTyped);
HWY_EXPORT(normGradTyped);

namespace {

template <typename T> T *row(void *base, int64_t r, int64_t n) { return static_cast<T *>(base) + r * n; }

/// Operands: x, scale, [bias], y, [mean], inverse; `centred` for layer_norm.
Prepared prepareNorm(const KernelSpec &spec, Result<NormShape> read, bool centred) {
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || read->n == 0)
    return decline();
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([=, s = *read, threads = threadsFor(spec.threads, read->rows * read->n)](void *const *operands,
                                                                                               const StepContext &) {
      void *const *outputs = operands + (s.hasBias ? 3 : 2);
      float *mean = centred ? as<float>(outputs[1]) : nullptr, *inverse = as<float>(outputs[centred ? 2 : 1]);
      parallelRanges(threads, s.rows, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r)
          HWY_DYNAMIC_DISPATCH(normTyped)
        (s.dtype, centred, row<T>(operands[0], r, s.n), operands[1], s.hasBias ? operands[2] : nullptr,
         row<T>(outputs[0], r, s.n), s.n, static_cast<float>(s.epsilon), mean ? mean + r : nullptr, inverse + r);
      });
    });
  });
}

/// Operands: g, x, scale, [mean], inverse, dx, dScale, [dBias].
Prepared prepareNormGrad(const KernelSpec &spec, Result<NormShape> read, bool centred) {
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || read->n == 0)
    return decline();
  int threads = std::min(threadsFor(spec.threads, read->rows * read->n), normGradTiles(*read));
  // Of each thread: its part of dScale, then of dBias.
  auto width = static_cast<size_t>(normGradTile(*read));
  Workspace workspace(spec);
  auto parts = workspace.take<float>(static_cast<int64_t>(width) * 2 * threads);
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([=, s = *read](void *const *operands, const StepContext &) {
      const float *mean = centred ? as<float>(operands[3]) : nullptr, *inverse = as<float>(operands[centred ? 4 : 3]);
      void *const *outputs = operands + (centred ? 5 : 4);
      float *partial = parts.of(operands);
      std::fill(partial, partial + parts.count, 0.0f);
      parallelParts(threads, s.rows, 1, [&](int64_t begin, int64_t end, int part) {
        float *dScale = partial + width * 2 * static_cast<size_t>(part);
        for (int64_t r = begin; r < end; ++r)
          HWY_DYNAMIC_DISPATCH(normGradTyped)
        (s.dtype, centred, row<T>(operands[0], r, s.n), row<T>(operands[1], r, s.n), operands[2], mean ? mean[r] : 0,
         inverse[r], row<T>(outputs[0], r, s.n), s.n, dScale, centred ? dScale + width : nullptr);
      });
      for (size_t output = 1; output <= (centred ? 2u : 1u); ++output)
        for (size_t i = 0; i < static_cast<size_t>(s.n); ++i) {
          float sum = 0;
          for (size_t part = 0; part < static_cast<size_t>(threads); ++part)
            sum += partial[(part * 2 + output - 1) * width + i];
          as<T>(outputs[output])[i] = store<T>(sum);
        }
    });
  });
}

} // namespace

void addFastNorm(KernelRegistry &registry) {
  registry.add("layer_norm", [](const KernelSpec &spec) { return prepareNorm(spec, readLayerNorm(spec), true); });
  registry.add("rms_norm", [](const KernelSpec &spec) { return prepareNorm(spec, readRmsNorm(spec), false); });
  registry.add("layer_norm_grad",
               [](const KernelSpec &spec) { return prepareNormGrad(spec, readLayerNormGrad(spec), true); });
  registry.add("rms_norm_grad",
               [](const KernelSpec &spec) { return prepareNormGrad(spec, readRmsNormGrad(spec), false); });
}

} // namespace zc::cpu
#endif
