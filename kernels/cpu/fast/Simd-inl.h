// Vectors of fp32 for the fast kernels; included once per instruction set by Highway's foreach_target, so without
// `#pragma once`. Tensors of fp32, bf16 and f16 are computed in fp32.
//
// A tail shorter than a vector goes through the same instructions as the body, padded in a buffer: an element's result
// does not depend on where in a tensor, shard or thread's part it lies.
#if defined(ZC_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZC_SIMD_INL_H
#undef ZC_SIMD_INL_H
#else
#define ZC_SIMD_INL_H
#endif

#include "kernels/cpu/fast/RoundsToBf16.h"
#include "kernels/formula/Elements.h"

#include <cstring>
#include <hwy/highway.h>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
using namespace formula;
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;
using V = hn::Vec<F>;
using M = hn::Mask<F>;
constexpr F kF{};

HWY_INLINE HWY_MAYBE_UNUSED size_t lanes() { return hn::Lanes(kF); }

//===-- loads and stores ---------------------------------------------------===//

HWY_INLINE HWY_MAYBE_UNUSED V loadVector(const float *p) { return hn::LoadU(kF, p); }
using Half = hn::Rebind<uint16_t, F>; ///< 16 bits for each lane of F
HWY_INLINE HWY_MAYBE_UNUSED V widenBf16(hn::Vec<Half> bits) {
  return hn::BitCast(kF, hn::ShiftLeft<16>(hn::PromoteTo(U(), bits)));
}
HWY_INLINE HWY_MAYBE_UNUSED V loadVector(const Bf16 *p) {
  return widenBf16(hn::LoadU(Half(), reinterpret_cast<const uint16_t *>(p)));
}

using F16Element = hwy::float16_t;
/// f16 as fp32, lane by lane, and back, as fromF16 and toF16.
template <class D> HWY_INLINE hn::Vec<D> widenF16(D f, hn::Vec<hn::Rebind<F16Element, D>> halves) {
  return hn::PromoteTo(f, halves);
}
HWY_INLINE HWY_MAYBE_UNUSED auto f16Of(V v) { return hn::DemoteTo(hn::Rebind<F16Element, F>(), v); }
template <class D> HWY_INLINE hn::Vec<D> loadF16(D f, const F16 *p) {
  return widenF16(f, hn::LoadU(hn::Rebind<F16Element, D>(), reinterpret_cast<const F16Element *>(p)));
}
HWY_INLINE HWY_MAYBE_UNUSED V loadVector(const F16 *p) { return loadF16(kF, p); }

/// Rounded to nearest even, as toBf16, in the upper half of each lane, without a look at NaN: one with zeros in the
/// lower half stays NaN, since the sum does not carry into what makes it so.
HWY_INLINE HWY_MAYBE_UNUSED auto nearestHalves(V v) {
  const U u;
  const auto bits = hn::BitCast(u, v);
  const auto isOdd = hn::TestBit(bits, hn::Set(u, 0x10000));
  return hn::Add(bits, hn::IfThenElse(isOdd, hn::Set(u, 0x8000), hn::Set(u, 0x7fff)));
}
/// The same of all numbers: any NaN stays NaN.
HWY_INLINE HWY_MAYBE_UNUSED auto roundedHalves(V v) {
  const U u;
  auto quiet = hn::Or(hn::BitCast(u, v), hn::Set(u, 0x400000));
  return hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(v)), quiet, nearestHalves(v));
}
/// What the upper half of each lane is in bf16.
HWY_INLINE HWY_MAYBE_UNUSED V widenedHalves(hn::Vec<U> bits) {
  return hn::BitCast(kF, hn::And(bits, hn::Set(U(), 0xffff0000)));
}
/// The upper half of each lane.
HWY_INLINE HWY_MAYBE_UNUSED auto upperHalves(hn::Vec<U> v) {
#if HWY_TARGET <= HWY_AVX3 // one permutation
  const hn::Repartition<uint16_t, F> all;
  const auto halves = hn::BitCast(all, v);
  return hn::LowerHalf(Half(), hn::ConcatOdd(all, halves, halves));
#else
  return hn::TruncateTo(Half(), hn::ShiftRight<16>(v));
#endif
}
HWY_INLINE HWY_MAYBE_UNUSED auto halvesOf(V v) {
#if HWY_TARGET <= HWY_AVX3
  // The CPU's instruction takes denormal numbers for zeros, else it rounds as we do.
  constexpr int kDenormal = 0x20;
  if (HWY_LIKELY(roundsToBf16 && _mm512_fpclass_ps_mask(v.raw, kDenormal) == 0)) {
    __m256i halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v.raw));
    return hn::Vec<Half>{halves};
  }
#endif
  return upperHalves(roundedHalves(v));
}
/// What a store to T and a load leave of v.
template <typename T> HWY_INLINE V rounded(V v) {
  if constexpr (std::is_same_v<T, Bf16>)
    return widenedHalves(roundedHalves(v));
  else if constexpr (std::is_same_v<T, F16>)
    return widenF16(kF, f16Of(v));
  else
    return v;
}
HWY_INLINE HWY_MAYBE_UNUSED void storeVector(V v, float *p) { hn::StoreU(v, kF, p); }
HWY_INLINE HWY_MAYBE_UNUSED void storeVector(V v, Bf16 *p) {
  hn::StoreU(halvesOf(v), Half(), reinterpret_cast<uint16_t *>(p));
}
HWY_INLINE HWY_MAYBE_UNUSED void storeVector(V v, F16 *p) {
  hn::StoreU(f16Of(v), hn::Rebind<F16Element, F>(), reinterpret_cast<F16Element *>(p));
}
/// Of numbers that T has.
HWY_INLINE HWY_MAYBE_UNUSED void storeExact(V v, Bf16 *p) {
  hn::StoreU(upperHalves(hn::BitCast(U(), v)), Half(), reinterpret_cast<uint16_t *>(p));
}
HWY_INLINE HWY_MAYBE_UNUSED void storeExact(V v, F16 *p) { storeVector(v, p); }
HWY_INLINE HWY_MAYBE_UNUSED void storeExact(V v, float *p) { storeVector(v, p); }
/// Past the caches, to p aligned to 64 bytes or as many vectors further on; hwy::FlushStream() after the last.
HWY_INLINE HWY_MAYBE_UNUSED void streamVector(V v, float *p) { hn::Stream(v, kF, p); }
HWY_INLINE HWY_MAYBE_UNUSED void streamVector(V v, Bf16 *p) {
  hn::Stream(halvesOf(v), Half(), reinterpret_cast<uint16_t *>(p));
}
HWY_INLINE HWY_MAYBE_UNUSED void streamVector(V v, F16 *p) {
  hn::Stream(f16Of(v), hn::Rebind<F16Element, F>(), reinterpret_cast<F16Element *>(p));
}

// Less than a vector. Where lanes that are masked out are not touched, in one instruction; else through a buffer.
#if HWY_MEM_OPS_MIGHT_FAULT
template <typename T> HWY_INLINE V loadFirst(const T *p, size_t count, float fill) {
  HWY_ALIGN float padded[HWY_MAX_BYTES / sizeof(float)];
  for (size_t i = 0; i < lanes(); ++i)
    padded[i] = i < count ? load(p[i]) : fill;
  return hn::Load(kF, padded);
}
template <typename T> HWY_INLINE void storeFirst(V v, T *p, size_t count) {
  HWY_ALIGN T whole[HWY_MAX_BYTES / sizeof(float)];
  storeVector(v, whole);
  std::memcpy(p, whole, count * sizeof(T));
}
#else
template <typename T> HWY_INLINE V loadFirst(const T *p, size_t count, float fill) {
  V v;
  if constexpr (std::is_same_v<T, float>) {
    v = hn::MaskedLoad(hn::FirstN(kF, count), kF, p);
  } else {
    const auto bits = hn::MaskedLoad(hn::FirstN(Half(), count), Half(), reinterpret_cast<const uint16_t *>(p));
    if constexpr (std::is_same_v<T, Bf16>)
      v = widenBf16(bits);
    else
      v = widenF16(kF, hn::BitCast(hn::Rebind<F16Element, F>(), bits));
  }
  return fill == 0 ? v : hn::IfThenElse(hn::FirstN(kF, count), v, hn::Set(kF, fill));
}
template <typename T> HWY_INLINE void storeFirst(V v, T *p, size_t count) {
  if constexpr (std::is_same_v<T, float>) {
    hn::BlendedStore(v, hn::FirstN(kF, count), kF, p);
  } else {
    hn::Vec<Half> bits;
    if constexpr (std::is_same_v<T, Bf16>)
      bits = halvesOf(v);
    else
      bits = hn::BitCast(Half(), f16Of(v));
    hn::BlendedStore(bits, hn::FirstN(Half(), count), Half(), reinterpret_cast<uint16_t *>(p));
  }
}
#endif

/// `count` elements, at most a vector; the rest of the lanes hold `fill`.
template <typename T> HWY_INLINE V loadPart(const T *p, size_t count, float fill = 0) {
  return count == lanes() ? loadVector(p) : loadFirst(p, count, fill);
}
template <typename T> HWY_INLINE void storePart(V v, T *p, size_t count) {
  if (count == lanes())
    storeVector(v, p);
  else
    storeFirst(v, p, count);
}

template <typename T> HWY_INLINE void storePartExact(V v, T *p, size_t count) {
  if (count == lanes())
    return storeExact(v, p);
  HWY_ALIGN T whole[HWY_MAX_BYTES / sizeof(float)];
  storeExact(v, whole);
  std::memcpy(p, whole, count * sizeof(T));
}

/// fn(first element, number of elements) for each vector of [begin, end). fn is inlined twice: for whole vectors the
/// number is known to be lanes().
template <typename Fn> HWY_INLINE void forVectors(int64_t begin, int64_t end, Fn fn) {
  const auto step = static_cast<int64_t>(lanes());
  int64_t i = begin;
  for (; i + step <= end; i += step)
    fn(i, lanes());
  if (i < end)
    fn(i, static_cast<size_t>(end - i));
}

//===-- functions ----------------------------------------------------------===//
// Polynomials are minimax fits (Lawson's iteration) made for these ranges; figures are the largest relative errors
// found against double over all of the range.

/// e^x as p 2^n.
struct Power {
  V p, n;
  V shifted; ///< whose low bits are n + 126
};
/// Of x between -87 and 89; p is NaN for NaN.
HWY_INLINE HWY_MAYBE_UNUSED Power powerOf(V x) {
  // x / ln 2 rounded to a whole number n by adding 1.5 * 2^23.
  const V magic = hn::Set(kF, 12582912.0f + 126.0f);
  const V shifted = hn::MulAdd(x, hn::Set(kF, 1.44269504088896341f), magic), n = hn::Sub(shifted, magic);
  // x - n ln 2, with ln 2 in two parts, the first exact in products with |n| <= 128.
  const V r = hn::NegMulAdd(n, hn::Set(kF, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(kF, 0.693359375f), x));
  V p = hn::Set(kF, 0.001381446490995586f);
  for (float c : {0.008368780836462975f, 0.04166839271783829f, 0.1666651964187622f, 0.4999999403953552f, 1.0f, 1.0f})
    p = hn::MulAdd(p, r, hn::Set(kF, c));
  return {p, n, shifted};
}
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE HWY_MAYBE_UNUSED V valueOf(const Power &e) { return V{_mm512_scalef_ps(e.p.raw, e.n.raw)}; }
HWY_INLINE HWY_MAYBE_UNUSED V valueUnless(M isZero, const Power &e) {
  return V{_mm512_maskz_scalef_ps(static_cast<__mmask16>(~isZero.raw), e.p.raw, e.n.raw)};
}
#else
HWY_INLINE HWY_MAYBE_UNUSED V valueOf(const Power &e) {
  // Times 2^(n-1), whose exponent's bits these are, times 2: so that 2^128 overflows to infinity. A product, since NaN
  // is none of the numbers that bits can be added to.
  const V scaled = hn::Mul(e.p, hn::BitCast(kF, hn::ShiftLeft<23>(hn::BitCast(I(), e.shifted))));
  return hn::Add(scaled, scaled);
}
HWY_INLINE HWY_MAYBE_UNUSED V valueUnless(M isZero, const Power &e) { return hn::IfThenZeroElse(isZero, valueOf(e)); }
#endif

/// x, or the limit that it is beyond; NaN for NaN: x86's second operand wins where one is.
HWY_INLINE HWY_MAYBE_UNUSED V clampV(V x, float least, float most) {
  return hn::Max(hn::Set(kF, least), hn::Min(hn::Set(kF, most), x));
}
/// e^x, 1e-7. 0 below -86 (results near the smallest normal number), infinity above 88.7, NaN for NaN.
HWY_INLINE HWY_MAYBE_UNUSED V expV(V x) {
  return valueUnless(hn::Lt(x, hn::Set(kF, -86.0f)), powerOf(clampV(x, -87, 89)));
}

/// 1 / x, 1e-7, of normal numbers whose reciprocals are; NaN for NaN. A division of 16 lanes takes as long as 16 to 32
/// other instructions.
HWY_INLINE HWY_MAYBE_UNUSED V reciprocalV(V x) {
  const V one = hn::Set(kF, 1.0f);
#if HWY_TARGET <= HWY_AVX3
  const V near{_mm512_rcp14_ps(x.raw)};
  return hn::MulAdd(hn::NegMulAdd(x, near, one), near, near);
#else
  return hn::Div(one, x);
#endif
}

/// 1 / (1 + e^-x), 2e-7. 0 below -86.
HWY_INLINE HWY_MAYBE_UNUSED V sigmoidV(V x) {
  const V e = valueOf(powerOf(clampV(hn::Neg(x), -87, 86)));
  const V y = reciprocalV(hn::Add(hn::Set(kF, 1.0f), e));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(kF, -86.0f)), y);
}

/// tanh x, 2e-7: an odd polynomial near 0, where 1 - e^-2x would cancel.
HWY_INLINE HWY_MAYBE_UNUSED V tanhV(V x) {
  const V one = hn::Set(kF, 1.0f), size = hn::Abs(x), square = hn::Mul(x, x);
  V p = hn::Set(kF, -0.00566078070551157f);
  p = hn::MulAdd(p, square, hn::Set(kF, 0.020601999014616013f));
  p = hn::MulAdd(p, square, hn::Set(kF, -0.05372922867536545f));
  p = hn::MulAdd(p, square, hn::Set(kF, 0.13331328332424164f));
  p = hn::MulAdd(p, square, hn::Set(kF, -0.33333277702331543f));
  const V small = hn::MulAdd(hn::Mul(p, square), x, x);
  const V e = valueOf(powerOf(clampV(hn::Mul(size, hn::Set(kF, -2.0f)), -87, 0)));
  const V large = hn::CopySign(hn::Mul(hn::Sub(one, e), reciprocalV(hn::Add(one, e))), x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(kF, 0.6f)), small, large);
}

/// The normal distribution: Phi(x) = (1 + erf(x / sqrt 2)) / 2 and its density. The upper tail is
/// e^(-x^2/2) G(1 / (1 + 0.3 |x|)), with a relative error below 1e-6 wherever it is above 1e-8.
HWY_INLINE HWY_MAYBE_UNUSED void normalV(V x, V &phi, V &density) {
  const V one = hn::Set(kF, 1.0f), size = hn::Min(hn::Set(kF, 100.0f), hn::Abs(x)); // beyond, e below is 0
  const V t = reciprocalV(hn::MulAdd(size, hn::Set(kF, 0.3f), one));
  V g = hn::Set(kF, -0.005217697937041521f);
  for (float c :
       {0.0655616894364357f, -0.23023182153701782f, 0.30610716342926025f, -0.13746823370456696f, 0.17334721982479095f,
        0.08470547944307327f, 0.12391330301761627f, 0.11926516145467758f, 1.7748552636476234e-05f})
    g = hn::MulAdd(g, t, hn::Set(kF, c));
  const V e = expV(hn::Mul(hn::Mul(x, x), hn::Set(kF, -0.5f)));
  const V tail = hn::Mul(e, g);
  phi = hn::IfThenElse(hn::Lt(x, hn::Zero(kF)), tail, hn::Sub(one, tail));
  density = hn::Mul(e, hn::Set(kF, 0.39894228040143268f));
}

//===-- sums ---------------------------------------------------------------===//

/// Sums over [0, n) of N terms: fn(first element, number, terms) gives each as a vector whose unused lanes are zero.
/// Four partial vectors a term, so that additions overlap, always added up in the same order; written out, since they
/// are in registers only where their numbers are constants.
template <size_t N, typename Fn> HWY_INLINE void sumTerms(int64_t n, float (&sums)[N], Fn fn) {
  V a[N], b[N], c[N], d[N];
  for (size_t s = 0; s < N; ++s)
    a[s] = b[s] = c[s] = d[s] = hn::Zero(kF);
  const auto step = static_cast<int64_t>(lanes());
  auto add = [&](V(&part)[N], int64_t i, size_t count) HWY_ATTR {
    V terms[N];
    fn(i, count, terms);
    for (size_t s = 0; s < N; ++s)
      part[s] = hn::Add(part[s], terms[s]);
  };
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    add(a, i, lanes());
    add(b, i + step, lanes());
    add(c, i + 2 * step, lanes());
    add(d, i + 3 * step, lanes());
  }
  auto addRest = [&](V(&part)[N]) HWY_ATTR {
    if (i < n)
      add(part, i, i + step <= n ? lanes() : static_cast<size_t>(n - i));
    i += step;
  };
  addRest(a);
  addRest(b);
  addRest(c);
  addRest(d);
  for (size_t s = 0; s < N; ++s)
    sums[s] = hn::GetLane(hn::SumOfLanes(kF, hn::Add(hn::Add(a[s], b[s]), hn::Add(c[s], d[s]))));
}
/// The same of one term, which fn(first element, number) returns.
template <typename Fn> HWY_INLINE float sumVectors(int64_t n, Fn fn) {
  float sums[1];
  sumTerms(n, sums, [&](int64_t i, size_t count, V(&terms)[1]) HWY_ATTR { terms[0] = fn(i, count); });
  return sums[0];
}

/// Zeroes lanes from `count` on.
HWY_INLINE HWY_MAYBE_UNUSED V keepFirst(V v, size_t count) {
  return count == lanes() ? v : hn::IfThenElseZero(hn::FirstN(kF, count), v);
}

/// Largest of x[0, n); -inf if n is 0. A NaN may be passed over, unless all else is -inf: callers go on to sum e^x,
/// which then is NaN.
template <typename T> HWY_INLINE float maxOf(const T *x, int64_t n) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  const auto step = static_cast<int64_t>(lanes());
  V a = hn::Set(kF, lowest), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a = hn::Max(a, loadVector(x + i));
    b = hn::Max(b, loadVector(x + i + step));
    c = hn::Max(c, loadVector(x + i + 2 * step));
    d = hn::Max(d, loadVector(x + i + 3 * step));
  }
  forVectors(i, n, [&](int64_t k, size_t count) HWY_ATTR { a = hn::Max(a, loadPart(x + k, count, lowest)); });
  const float top = hn::GetLane(hn::MaxOfLanes(kF, hn::Max(hn::Max(a, b), hn::Max(c, d))));
  for (int64_t k = 0; top == lowest && k < n; ++k)
    if (std::isnan(load(x[k])))
      return load(x[k]);
  return top;
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#endif
