// What norms over channels do to a plane, or a run of them, of one channel's elements. Included once per instruction
// set, so without `#pragma once`.
#if defined(ZC_CHANNEL_RUNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZC_CHANNEL_RUNS_INL_H
#undef ZC_CHANNEL_RUNS_INL_H
#else
#define ZC_CHANNEL_RUNS_INL_H
#endif

#include "kernels/cpu/fast/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Sums of x, or of (x - centre)^2.
template <typename T> float sumRun(const T *x, int64_t n) {
  return sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR { return loadPart(x + i, c); });
}
template <typename T> float squaresRun(const T *x, int64_t n, float centre) {
  const V mean = hn::Set(kF, centre);
  return sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR {
    const V d = keepFirst(hn::Sub(loadPart(x + i, c), mean), c);
    return hn::Mul(d, d);
  });
}
/// y = (x - mean) factor + shift
template <typename T> void affineRun(const T *x, T *y, int64_t n, float mean, float factor, float shift) {
  const V m = hn::Set(kF, mean), f = hn::Set(kF, factor), s = hn::Set(kF, shift);
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    storePart(hn::Add(hn::Mul(hn::Sub(loadPart(x + i, c), m), f), s), y + i, c);
  });
}
/// Adds the sums of g (x - mean) and of g.
template <typename T> void gradSumsRun(const T *g, const T *x, int64_t n, float mean, double &products, double &sum) {
  const V m = hn::Set(kF, mean);
  float sums[2];
  sumTerms(n, sums, [&](int64_t i, size_t c, V(&terms)[2]) HWY_ATTR { // unused lanes: g is 0
    terms[1] = loadPart(g + i, c);
    terms[0] = hn::Mul(terms[1], hn::Sub(loadPart(x + i, c), m));
  });
  products += sums[0];
  sum += sums[1];
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#endif // ZC_CHANNEL_RUNS_INL_H
