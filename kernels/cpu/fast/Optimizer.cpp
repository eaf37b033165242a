// One pass over gradient, parameter and moments: 28 bytes per fp32 parameter with AdamW, as fast as memory. A large
// copy of the parameters is streamed past the caches, which would read it first only to overwrite it. The arithmetic of
// formula/Optimizer.h, bit for bit. Each element's result depends on that element alone.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Optimizer.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include "kernels/formula/Optimizer.h"

#ifndef ZC_FAST_OPTIMIZER_STEP
#define ZC_FAST_OPTIMIZER_STEP
namespace zc::cpu {
struct FastStep : formula::OptimizerStep<float> {
  bool streams; ///< the copy of the parameters; it is aligned
};
} // namespace zc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

template <typename O> HWY_INLINE void storeCopy(const FastStep &s, V param, O *out, size_t count) {
  if (!s.streams || count < lanes())
    return storePart(param, out, count);
  streamVector(param, out);
}

/// adamw: `decoupled`; adam: decay joins the gradient.
template <bool decoupled, typename G, typename O>
void adamRange(const FastStep &s, int64_t begin, int64_t end, const G *grad, float *p, float *m, float *v, O *out) {
  const V factor = hn::Set(kF, s.factor), shrink = hn::Set(kF, s.shrink), decay = hn::Set(kF, s.decay);
  const V beta2 = hn::Set(kF, s.beta2), oneMinusBeta1 = hn::Set(kF, s.oneMinusBeta1);
  const V oneMinusBeta2 = hn::Set(kF, s.oneMinusBeta2), invCorrection2 = hn::Set(kF, s.invCorrection2);
  const V eps = hn::Set(kF, s.eps), stepSize = hn::Set(kF, s.stepSize);
  forVectors(begin, end, [&](int64_t i, size_t count) HWY_ATTR {
    V g = hn::Mul(loadPart(grad + i, count), factor);
    V param = loadPart(p + i, count), first = loadPart(m + i, count), second = loadPart(v + i, count);
    if (decoupled)
      param = hn::Mul(param, shrink);
    else if (s.decay != 0) // of a parameter that is infinite it would be NaN
      g = hn::MulAdd(decay, param, g);
    first = hn::MulAdd(hn::Sub(g, first), oneMinusBeta1, first);
    second = hn::MulAdd(hn::Mul(g, g), oneMinusBeta2, hn::Mul(second, beta2));
    const V denominator = hn::MulAdd(hn::Sqrt(second), invCorrection2, eps);
    param = hn::NegMulAdd(stepSize, hn::Div(first, denominator), param);
    storePart(param, p + i, count);
    storePart(first, m + i, count);
    storePart(second, v + i, count);
    if (out)
      storeCopy(s, param, out + i, count);
  });
}

template <typename G, typename O>
void sgdRange(const FastStep &s, int64_t begin, int64_t end, const G *grad, float *p, float *m, O *out) {
  const V factor = hn::Set(kF, s.factor), decay = hn::Set(kF, s.decay);
  const V lr = hn::Set(kF, s.lr), momentum = hn::Set(kF, s.momentum);
  forVectors(begin, end, [&](int64_t i, size_t count) HWY_ATTR {
    V param = loadPart(p + i, count);
    V g = hn::Mul(loadPart(grad + i, count), factor);
    if (s.decay != 0)
      g = hn::MulAdd(decay, param, g);
    if (m) {
      g = hn::MulAdd(momentum, loadPart(m + i, count), g);
      storePart(g, m + i, count);
    }
    param = hn::NegMulAdd(lr, g, param);
    storePart(param, p + i, count);
    if (out)
      storeCopy(s, param, out + i, count);
  });
}

template <typename G, typename O>
void ruleRange(UpdateRule rule, const FastStep &s, int64_t begin, int64_t end, const void *grad, float *p, float *m,
               float *v, void *out) {
  const G *g = static_cast<const G *>(grad);
  O *o = static_cast<O *>(out);
  if (rule == UpdateRule::adamw)
    adamRange<true>(s, begin, end, g, p, m, v, o);
  else if (rule == UpdateRule::adam)
    adamRange<false>(s, begin, end, g, p, m, v, o);
  else
    sgdRange(s, begin, end, g, p, m, o);
}

void updateRange(UpdateRule rule, DType grad, DType copy, const FastStep &s, int64_t begin, int64_t end, const void *g,
                 float *p, float *m, float *v, void *out) {
  withFast(grad, [&](auto gradTag) {
    withFast(copy, [&](auto copyTag) {
      ruleRange<TypeOf<decltype(gradTag)>, TypeOf<decltype(copyTag)>>(rule, s, begin, end, g, p, m, v, out);
    });
  });
  if (s.streams)
    hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {
HWY_EXPORT(updateRange);

namespace {

/// A copy of as many elements would push everything else out of the caches.
constexpr int64_t kStreamedElements = 1 << 18;

Prepared prepareOptimizer(const KernelSpec &spec) {
  Result<OptimizerShape> read = readOptimizer(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->grad) || read->param != DType::f32 || (read->out && !isFast(*read->out)))
    return decline();
  return makeKernel([s = *read, threads = threadsFor(spec.threads, read->n)](void *const *operands,
                                                                             const StepContext &context) {
    FastStep step{stepOf<float>(s.rule, context, *as<float>(operands[1])), false};
    float *m = s.moments > 0 ? as<float>(operands[3]) : nullptr, *v = s.moments > 1 ? as<float>(operands[4]) : nullptr;
    void *out = s.out ? operands[3 + s.moments] : nullptr;
    if (std::isnan(step.factor)) { // a step to be skipped; who takes the copy still does
      if (out)
        parallelRanges(threads, s.n, kPieceElements, [&](int64_t begin, int64_t end, int) {
          convertFast(DType::f32, as<float>(operands[2]) + begin, *s.out,
                      static_cast<char *>(out) + begin * sizeOf(*s.out), end - begin);
        });
      return;
    }
    step.streams = out && s.n >= kStreamedElements && reinterpret_cast<uintptr_t>(out) % 64 == 0;
    parallelRanges(threads, s.n, kPieceElements, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(updateRange)
      (s.rule.rule, s.grad, s.out.value_or(DType::f32), step, begin, end, operands[0], as<float>(operands[2]), m, v,
       out);
    });
  });
}

} // namespace

void addFastOptimizer(KernelRegistry &registry) {
  for (const char *name : namesOf(UpdateRule()))
    registry.add(name, prepareOptimizer);
}

} // namespace zc::cpu
#endif
