// FusedSteps.h: an instruction is a loop of vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/FusedSteps.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Functions-inl.h"
#include "kernels/cpu/fast/FusedSteps.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

HWY_INLINE V asNumbers(M flags) { return hn::IfThenElseZero(flags, constant(1)); }

// Bools are 0 and 1 in registers.
struct BoolAnd {
  static HWY_INLINE V apply(V a, V b) { return hn::And(a, b); }
};
struct BoolOr {
  static HWY_INLINE V apply(V a, V b) { return hn::Or(a, b); }
};
struct BoolXor {
  static HWY_INLINE V apply(V a, V b) { return hn::Xor(a, b); }
};
struct BoolNot {
  static HWY_INLINE V apply(V a) { return hn::Xor(a, constant(1)); }
};
template <typename Op> struct Flags {
  static HWY_INLINE V apply(V a, V b) { return asNumbers(Op::apply(a, b)); }
};
struct IsNan {
  static HWY_INLINE V apply(V a) { return asNumbers(hn::IsNaN(a)); }
};
/// NaN is true, which Ne would not say.
struct IsTrue {
  static HWY_INLINE V apply(V a) { return hn::IfThenZeroElse(hn::Eq(a, hn::Zero(kF)), constant(1)); }
};
struct Same {
  static HWY_INLINE V apply(V a) { return a; }
};
struct Select {
  static HWY_INLINE V apply(V condition, V a, V b) { return hn::IfThenElse(hn::Ne(condition, hn::Zero(kF)), a, b); }
};

struct Masked {
  static HWY_INLINE V apply(V x, V condition, V scale) {
    return hn::IfThenElseZero(hn::Ne(condition, hn::Zero(kF)), hn::Mul(x, scale));
  }
};

/// What a step gives, rounded to T (float: it has it already), to where Out is stored: a tile's fp32, or the result.
template <typename T, typename Out> HWY_INLINE void put(V v, float *y, int64_t i, size_t count) {
  auto *to = reinterpret_cast<Out *>(y) + i;
  if constexpr (std::is_same_v<Out, float>)
    storePart(rounded<T>(v), to, count);
  else if constexpr (std::is_same_v<Out, T>)
    storePart(v, to, count);
  else
    storePartExact(v, to, count);
}

template <typename Op, typename T, typename Out = float> void one(const float *const *from, float *y, int64_t n) {
  const float *a = from[0];
  forVectors(0, n,
             [&](int64_t i, size_t count) HWY_ATTR { put<T, Out>(Op::apply(loadPart(a + i, count)), y, i, count); });
}
template <typename Op, typename T, typename Out = float> void two(const float *const *from, float *y, int64_t n) {
  const float *a = from[0], *b = from[1];
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    put<T, Out>(Op::apply(loadPart(a + i, count), loadPart(b + i, count)), y, i, count);
  });
}
template <typename Op, typename T, typename Out = float> void three(const float *const *from, float *y, int64_t n) {
  const float *a = from[0], *b = from[1], *c = from[2];
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    put<T, Out>(Op::apply(loadPart(a + i, count), loadPart(b + i, count), loadPart(c + i, count)), y, i, count);
  });
}

/// Second of what First gives, rounded to T, at its operand `Place`, and of a third.
template <typename First, typename Second, size_t Place, typename T> struct Pair {
  static HWY_INLINE V apply(V a, V b, V c) {
    const V first = rounded<T>(First::apply(a, b));
    return Place == 0 ? Second::apply(first, c) : Second::apply(c, first);
  }
};
template <typename First, typename Second, typename T> struct PairOfOne {
  static HWY_INLINE V apply(V a, V b) { return Second::apply(rounded<T>(First::apply(a, b))); }
};
/// Compare(a, b) ? c : d
template <typename Compare, typename Out> void choose(const float *const *from, float *y, int64_t n) {
  const float *a = from[0], *b = from[1], *c = from[2], *d = from[3];
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    const M isTrue = Compare::apply(loadPart(a + i, count), loadPart(b + i, count));
    put<float, Out>(hn::IfThenElse(isTrue, loadPart(c + i, count), loadPart(d + i, count)), y, i, count);
  });
}

/// Where the second's operands are not alike; of zeros with different signs max and min give the second.
template <typename First, typename Second, typename T, typename Out> FusedStep pairAt(size_t place) {
  return place == 0 ? three<Pair<First, Second, 0, T>, T, Out> : three<Pair<First, Second, 1, T>, T, Out>;
}

/// Of arithmetic in T.
template <typename First, typename T, typename Out> FusedStep pairAfter(FusedCode second, size_t place) {
  switch (second) {
  case FusedCode::add:
    return three<Pair<First, Add, 0, T>, T, Out>;
  case FusedCode::mul:
    return three<Pair<First, Mul, 0, T>, T, Out>;
  case FusedCode::sub:
    return pairAt<First, Sub, T, Out>(place);
  case FusedCode::relu: // which rounds nothing
    return two<PairOfOne<First, Relu, T>, float, Out>;
  default:
    return nullptr;
  }
}

template <typename T, typename Out> FusedStep pairWith(FusedCode first, FusedCode second, size_t place) {
  const bool chooses = second == FusedCode::select && place == 0;
  switch (first) {
  case FusedCode::add:
    return pairAfter<Add, T, Out>(second, place);
  case FusedCode::sub:
    return pairAfter<Sub, T, Out>(second, place);
  case FusedCode::mul:
    return pairAfter<Mul, T, Out>(second, place);
  case FusedCode::equal:
    return chooses ? choose<Equal, Out> : nullptr;
  case FusedCode::less:
    return chooses ? choose<Less, Out> : nullptr;
  case FusedCode::lessEqual:
    return chooses ? choose<LessEqual, Out> : nullptr;
  case FusedCode::max:
    return second == FusedCode::min ? pairAt<Max, Min, float, Out>(place) : nullptr;
  case FusedCode::min:
    return second == FusedCode::max ? pairAt<Min, Max, float, Out>(place) : nullptr;
  default:
    return nullptr;
  }
}

FusedStep fusedPair(FusedCode first, FusedCode second, size_t place, DType type, bool isDirect) {
  return withFast(type, [&](auto tag) -> FusedStep {
    using T = TypeOf<decltype(tag)>;
    return isDirect ? pairWith<T, T>(first, second, place) : pairWith<T, float>(first, second, place);
  });
}

/// Of numbers, rounded to T; what is one of the operands is so already.
template <typename T, typename Out> FusedStep numbersStep(FusedCode code) {
  switch (code) {
  case FusedCode::select:
    return three<Select, float, Out>;
  case FusedCode::cast:
    return one<Same, T, Out>;
  case FusedCode::add:
    return two<Add, T, Out>;
  case FusedCode::sub:
    return two<Sub, T, Out>;
  case FusedCode::mul:
    return two<Mul, T, Out>;
  case FusedCode::div:
    return two<Div, T, Out>;
  case FusedCode::min:
    return two<Min, float, Out>;
  case FusedCode::max:
    return two<Max, float, Out>;
  case FusedCode::neg:
    return one<Neg, T, Out>;
  case FusedCode::exp:
    return one<Exp, T, Out>;
  case FusedCode::sqrt:
    return one<Sqrt, T, Out>;
  case FusedCode::reciprocal:
    return one<Reciprocal, T, Out>;
  case FusedCode::tanh:
    return one<Tanh, T, Out>;
  case FusedCode::sigmoid:
    return one<Sigmoid, T, Out>;
  case FusedCode::relu:
    return one<Relu, float, Out>;
  case FusedCode::silu:
    return one<Silu, T, Out>;
  case FusedCode::gelu:
    return one<GeluErf, T, Out>;
  case FusedCode::geluTanh:
    return one<GeluTanh, T, Out>;
  case FusedCode::geluGrad:
    return two<GeluErfGrad, T, Out>;
  case FusedCode::geluTanhGrad:
    return two<GeluTanhGrad, T, Out>;
  case FusedCode::siluGrad:
    return two<SiluGrad, T, Out>;
  case FusedCode::masked:
    return three<Masked, T, Out>;
  default:
    return nullptr;
  }
}

/// Of bools.
FusedStep boolsStep(FusedCode code) {
  switch (code) {
  case FusedCode::cast:
    return one<IsTrue, float>;
  case FusedCode::equal:
    return two<Flags<Equal>, float>;
  case FusedCode::less:
    return two<Flags<Less>, float>;
  case FusedCode::lessEqual:
    return two<Flags<LessEqual>, float>;
  case FusedCode::boolAnd:
    return two<BoolAnd, float>;
  case FusedCode::boolOr:
    return two<BoolOr, float>;
  case FusedCode::boolXor:
    return two<BoolXor, float>;
  case FusedCode::boolNot:
    return one<BoolNot, float>;
  case FusedCode::isNan:
    return one<IsNan, float>;
  default:
    return nullptr;
  }
}

FusedStep fusedStep(FusedCode code, DType type, bool isDirect) {
  if (type == DType::boolean)
    return code == FusedCode::select ? three<Select, float> : boolsStep(code);
  return withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return isDirect ? numbersStep<T, T>(code) : numbersStep<T, float>(code);
  });
}

/// Rounding alone: of what a plain function gives.
FusedStep fusedRounding(DType type) {
  if (type == DType::boolean)
    return one<Same, float>;
  return withFast(type, [&](auto tag) -> FusedStep { return one<Same, TypeOf<decltype(tag)>>; });
}

void fillTile(float value, float *y, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR { storePart(constant(value), y + i, count); });
}

template <typename T> void loadNumbers(const void *from, int64_t stride, float *y, int64_t n) {
  const T *x = static_cast<const T *>(from);
  if (stride == 0)
    return fillTile(load(*x), y, n);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR { storePart(loadPart(x + i, count), y + i, count); });
}
void loadBools(const void *from, int64_t stride, float *y, int64_t n) {
  const auto *x = static_cast<const uint8_t *>(from);
  if (stride == 0)
    return fillTile(*x != 0, y, n);
  const hn::Rebind<uint8_t, F> bytes;
  const U u;
  const auto step = static_cast<int64_t>(lanes());
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto words = hn::PromoteTo(u, hn::LoadU(bytes, x + i));
    storeVector(asNumbers(hn::RebindMask(kF, hn::Ne(words, hn::Zero(u)))), y + i);
  }
  for (; i < n; ++i)
    y[i] = x[i] != 0;
}
FusedLoad fusedLoad(DType type) {
  if (type == DType::boolean)
    return loadBools;
  return withFast(type, [&](auto tag) -> FusedLoad { return loadNumbers<TypeOf<decltype(tag)>>; });
}

template <typename T> void loadRuns(const void *from, const int64_t *starts, int64_t runs, int64_t length, float *y) {
  for (int64_t run = 0; run < runs; ++run, y += length)
    loadNumbers<T>(static_cast<const T *>(from) + starts[run], 1, y, length);
}
void loadRunsOfBools(const void *from, const int64_t *starts, int64_t runs, int64_t length, float *y) {
  for (int64_t run = 0; run < runs; ++run, y += length)
    loadBools(static_cast<const uint8_t *>(from) + starts[run], 1, y, length);
}
FusedLoadRuns fusedLoadRuns(DType type) {
  if (type == DType::boolean)
    return loadRunsOfBools;
  return withFast(type, [&](auto tag) -> FusedLoadRuns { return loadRuns<TypeOf<decltype(tag)>>; });
}

/// What is rounded to T.
template <typename T> void storeNumbers(const float *x, void *to, int64_t n) {
  T *y = static_cast<T *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR { storePart(loadPart(x + i, count), y + i, count); });
}
void storeBools(const float *x, void *to, int64_t n) {
  auto *y = static_cast<uint8_t *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(hn::Ne(loadPart(x + i, count), hn::Zero(kF)), y + i, count);
  });
}
FusedStore fusedStore(DType type) {
  if (type == DType::boolean)
    return storeBools;
  return withFast(type, [&](auto tag) -> FusedStore { return storeNumbers<TypeOf<decltype(tag)>>; });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zc::cpu {
HWY_EXPORT(fusedStep);
HWY_EXPORT(fusedPair);
HWY_EXPORT(fusedRounding);
HWY_EXPORT(fusedLoad);
HWY_EXPORT(fusedLoadRuns);
HWY_EXPORT(fusedStore);
HWY_EXPORT(fillTile);

FusedStep stepOf(FusedCode code, DType type, bool isDirect) {
  return HWY_DYNAMIC_DISPATCH(fusedStep)(code, type, isDirect);
}
FusedStep pairOf(FusedCode first, FusedCode second, size_t place, DType type, bool isDirect) {
  return HWY_DYNAMIC_DISPATCH(fusedPair)(first, second, place, type, isDirect);
}
FusedStep roundingOf(DType type) { return HWY_DYNAMIC_DISPATCH(fusedRounding)(type); }
FusedLoad loadOf(DType type) { return HWY_DYNAMIC_DISPATCH(fusedLoad)(type); }
FusedLoadRuns loadRunsOf(DType type) { return HWY_DYNAMIC_DISPATCH(fusedLoadRuns)(type); }
FusedStore storeOf(DType type) { return HWY_DYNAMIC_DISPATCH(fusedStore)(type); }
void fillWith(float value, float *y, int64_t n) { HWY_DYNAMIC_DISPATCH(fillTile)(value, y, n); }

} // namespace zc::cpu
#endif
