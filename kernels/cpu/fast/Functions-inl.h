// Element-wise functions of fp32 vectors: what kernels of one operation and programs of several (Fused.cpp) compute, so
// that both have the same bits. Included once per instruction set, as Simd-inl.h.
#if defined(ZC_FUNCTIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZC_FUNCTIONS_INL_H
#undef ZC_FUNCTIONS_INL_H
#else
#define ZC_FUNCTIONS_INL_H
#endif

#include "kernels/cpu/fast/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

//===-- two operands -------------------------------------------------------===//

struct Add {
  static HWY_INLINE V apply(V a, V b) { return hn::Add(a, b); }
};
struct Sub {
  static HWY_INLINE V apply(V a, V b) { return hn::Sub(a, b); }
};
struct Mul {
  static HWY_INLINE V apply(V a, V b) { return hn::Mul(a, b); }
};
struct Div {
  static HWY_INLINE V apply(V a, V b) { return hn::Div(a, b); }
};

// As the plain ones: the second of equal operands, and the sum where one is not a number.
struct Min {
  static HWY_INLINE V apply(V a, V b) {
    return hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Le(b, a), b, hn::Add(a, b)));
  }
};
struct Max {
  static HWY_INLINE V apply(V a, V b) {
    return hn::IfThenElse(hn::Gt(a, b), a, hn::IfThenElse(hn::Ge(b, a), b, hn::Add(a, b)));
  }
};

struct Equal {
  static HWY_INLINE M apply(V a, V b) { return hn::Eq(a, b); }
};
struct Less {
  static HWY_INLINE M apply(V a, V b) { return hn::Lt(a, b); }
};
struct LessEqual {
  static HWY_INLINE M apply(V a, V b) { return hn::Le(a, b); }
};

/// A comparison's result as bools.
HWY_INLINE HWY_MAYBE_UNUSED void storePart(M flags, uint8_t *p, size_t count) {
  const hn::Rebind<uint8_t, F> bytes;
  const U u;
  const auto ones = hn::TruncateTo(bytes, hn::IfThenElseZero(hn::RebindMask(u, flags), hn::Set(u, 1)));
  if (count == lanes())
    return hn::StoreU(ones, bytes, p);
  HWY_ALIGN uint8_t whole[HWY_MAX_BYTES / sizeof(float)];
  hn::StoreU(ones, bytes, whole);
  std::memcpy(p, whole, count);
}

//===-- activations and their slopes ---------------------------------------===//

HWY_INLINE HWY_MAYBE_UNUSED V constant(float x) { return hn::Set(kF, x); }

/// 2 sqrt(2/pi) (x + 0.044715 x^3): gelu's tanh form is x sigmoid(u), since (1 + tanh y) / 2 = sigmoid(2 y).
HWY_INLINE HWY_MAYBE_UNUSED V geluExponent(V x) {
  return hn::Mul(x, hn::MulAdd(hn::Mul(x, x), constant(0.0713548162726f), constant(1.5957691216057308f)));
}

struct GeluTanh {
  static HWY_INLINE V apply(V x) { return hn::Mul(x, sigmoidV(geluExponent(x))); }
};
struct GeluErf {
  static HWY_INLINE V apply(V x) {
    V phi, density;
    normalV(x, phi, density);
    return hn::Mul(x, phi);
  }
};
struct Silu {
  static HWY_INLINE V apply(V x) { return hn::Mul(x, sigmoidV(x)); }
};
struct Exp {
  static HWY_INLINE V apply(V x) { return expV(x); }
};
struct Tanh {
  static HWY_INLINE V apply(V x) { return tanhV(x); }
};
struct Sigmoid {
  static HWY_INLINE V apply(V x) { return sigmoidV(x); }
};
struct Relu {
  static HWY_INLINE V apply(V x) { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kF)), x); }
};
struct Neg {
  static HWY_INLINE V apply(V x) { return hn::Neg(x); }
};
struct Sqrt {
  static HWY_INLINE V apply(V x) { return hn::Sqrt(x); }
};
struct Reciprocal {
  static HWY_INLINE V apply(V x) { return hn::Div(constant(1), x); }
};

struct GeluTanhGrad {
  static HWY_INLINE V apply(V g, V x) {
    const V s = sigmoidV(geluExponent(x)), one = constant(1);
    // d/dx x s(u) = s + x s (1 - s) u'
    const V slope = hn::MulAdd(hn::Mul(x, x), constant(0.2140644488178f), constant(1.5957691216057308f));
    return hn::Mul(g, hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), slope, s));
  }
};
struct GeluErfGrad {
  static HWY_INLINE V apply(V g, V x) {
    V phi, density;
    normalV(x, phi, density);
    return hn::Mul(g, hn::MulAdd(x, density, phi));
  }
};
struct SiluGrad {
  static HWY_INLINE V apply(V g, V x) {
    const V s = sigmoidV(x);
    return hn::Mul(g, hn::MulAdd(hn::Mul(x, s), hn::Sub(constant(1), s), s));
  }
};

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#endif
