// FusedSteps.h: an instruction is a loop of vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/FusedSteps.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Functions-inl.h"
#include "kernels/cpu/fast/FusedSteps.h"

#include <functional>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

HWY_INLINE V asNumbers(M flags) { return hn::IfThenElseZero(flags, constant(1)); }

//===-- blocks of numbers of one type --------------------------------------===//

/// As many elements as two vectors of fp32 hold, in an order of the type's own: of bf16, pairs of neighbours are in the
/// halves of one lane, so that to widen or to narrow a vector is one instruction or two.
struct Two {
  V a, b;
};
template <typename T> HWY_INLINE Two loadTwo(const T *p) { return {loadVector(p), loadVector(p + lanes())}; }
template <> HWY_INLINE Two loadTwo(const Bf16 *p) {
  const auto bits = hn::LoadU(U(), reinterpret_cast<const uint32_t *>(p));
  return {hn::BitCast(kF, hn::ShiftLeft<16>(bits)), widenedHalves(bits)};
}

/// What arithmetic makes of numbers of T, as if it had been stored: NaN of bf16, and the CPU's own, have zeros below.
template <typename T> HWY_INLINE V asStored(V v) {
  if constexpr (std::is_same_v<T, Bf16>)
    return widenedHalves(nearestHalves(v));
  else
    return rounded<T>(v);
}

/// isExact: of numbers that T has.
template <bool isExact, typename T> HWY_INLINE void storeTwo(Two v, T *p) {
  storeVector(v.a, p);
  storeVector(v.b, p + lanes());
}
template <bool isExact> HWY_INLINE void storeTwo(Two v, Bf16 *p) {
  const U u;
  const hn::Repartition<uint16_t, F> halves;
  const auto even = isExact ? hn::BitCast(u, v.a) : nearestHalves(v.a),
             odd = isExact ? hn::BitCast(u, v.b) : nearestHalves(v.b);
  hn::StoreU(hn::OddEven(hn::BitCast(halves, odd), hn::BitCast(halves, hn::ShiftRight<16>(even))), halves,
             reinterpret_cast<uint16_t *>(p));
}

template <typename Op, typename... Operands> HWY_INLINE Two applied(const Operands &...x) {
  return {Op::apply(x.a...), Op::apply(x.b...)};
}

template <typename Op, typename T, bool isExact, size_t... K>
HWY_INLINE void runBlocks(const void *const *from, void *to, int64_t n, std::index_sequence<K...>) {
  const T *const x[] = {static_cast<const T *>(from[K])...};
  T *y = static_cast<T *>(to);
  const auto size = static_cast<int64_t>(2 * lanes());
  int64_t i = 0;
  for (; i + size <= n; i += size)
    storeTwo<isExact>(applied<Op>(loadTwo(x[K] + i)...), y + i);
  if (i == n)
    return;
  constexpr size_t kMost = 2 * HWY_MAX_BYTES / sizeof(float);
  HWY_ALIGN T padded[sizeof...(K)][kMost] = {}, result[kMost];
  const size_t bytes = static_cast<size_t>(n - i) * sizeof(T);
  (std::memcpy(padded[K], x[K] + i, bytes), ...);
  storeTwo<isExact>(applied<Op>(loadTwo(padded[K])...), result);
  std::memcpy(y + i, result, bytes);
}
/// y = Op of N operands, all of type T.
template <typename Op, typename T, size_t N, bool isExact = false>
void blocks(const void *const *from, void *to, int64_t n) {
  runBlocks<Op, T, isExact>(from, to, n, std::make_index_sequence<N>());
}

/// Second of what First gives, as if stored, at its operand `Place`, and of a third.
template <typename First, typename Second, size_t Place, typename T> struct Pair {
  static HWY_INLINE V apply(V a, V b, V c) {
    const V first = asStored<T>(First::apply(a, b));
    return Place == 0 ? Second::apply(first, c) : Second::apply(c, first);
  }
};
template <typename First, typename Second, typename T> struct PairOfOne {
  static HWY_INLINE V apply(V a, V b) { return Second::apply(asStored<T>(First::apply(a, b))); }
};
/// Compare(a, b) ? c : d
template <typename Compare> struct Choose {
  static HWY_INLINE V apply(V a, V b, V c, V d) { return hn::IfThenElse(Compare::apply(a, b), c, d); }
};

/// Where the second's operands are not alike; of zeros with different signs max and min give the second. `Between`:
/// what the first gives is rounded to; float where it needs no rounding.
template <typename First, typename Second, typename Between, typename T, bool isExact> FusedStep pairAt(size_t place) {
  return place == 0 ? blocks<Pair<First, Second, 0, Between>, T, 3, isExact>
                    : blocks<Pair<First, Second, 1, Between>, T, 3, isExact>;
}

/// Of arithmetic in T.
template <typename First, typename T> FusedStep pairAfter(FusedCode second, size_t place) {
  switch (second) {
  case FusedCode::add:
    return blocks<Pair<First, Add, 0, T>, T, 3>;
  case FusedCode::mul:
    return blocks<Pair<First, Mul, 0, T>, T, 3>;
  case FusedCode::sub:
    return pairAt<First, Sub, T, T, false>(place);
  case FusedCode::relu: // of what is rounded: what becomes -0 by that stays so
    return blocks<PairOfOne<First, Relu, T>, T, 2, true>;
  default:
    return nullptr;
  }
}

template <typename T> FusedStep pairWith(FusedCode first, FusedCode second, size_t place) {
  const bool chooses = second == FusedCode::select && place == 0;
  switch (first) {
  case FusedCode::add:
    return pairAfter<Add, T>(second, place);
  case FusedCode::sub:
    return pairAfter<Sub, T>(second, place);
  case FusedCode::mul:
    return pairAfter<Mul, T>(second, place);
  case FusedCode::equal:
    return chooses ? blocks<Choose<Equal>, T, 4, true> : nullptr;
  case FusedCode::less:
    return chooses ? blocks<Choose<Less>, T, 4, true> : nullptr;
  case FusedCode::lessEqual:
    return chooses ? blocks<Choose<LessEqual>, T, 4, true> : nullptr;
  case FusedCode::max:
    return second == FusedCode::min ? pairAt<Max, Min, float, T, true>(place) : nullptr;
  case FusedCode::min:
    return second == FusedCode::max ? pairAt<Min, Max, float, T, true>(place) : nullptr;
  default:
    return nullptr;
  }
}

FusedStep fusedPair(FusedCode first, FusedCode second, size_t place, DType type) {
  return withFast(type, [&](auto tag) -> FusedStep { return pairWith<TypeOf<decltype(tag)>>(first, second, place); });
}

/// Of numbers of type T that give such; what is one of the operands, or their negative, is so already.
template <typename T> FusedStep numbersStep(FusedCode code) {
  switch (code) {
  case FusedCode::add:
    return blocks<Add, T, 2>;
  case FusedCode::sub:
    return blocks<Sub, T, 2>;
  case FusedCode::mul:
    return blocks<Mul, T, 2>;
  case FusedCode::div:
    return blocks<Div, T, 2>;
  case FusedCode::min:
    return blocks<Min, T, 2, true>;
  case FusedCode::max:
    return blocks<Max, T, 2, true>;
  case FusedCode::neg:
    return blocks<Neg, T, 1, true>;
  case FusedCode::exp:
    return blocks<Exp, T, 1>;
  case FusedCode::sqrt:
    return blocks<Sqrt, T, 1>;
  case FusedCode::reciprocal:
    return blocks<Reciprocal, T, 1>;
  case FusedCode::tanh:
    return blocks<Tanh, T, 1>;
  case FusedCode::sigmoid:
    return blocks<Sigmoid, T, 1>;
  case FusedCode::relu:
    return blocks<Relu, T, 1, true>;
  case FusedCode::silu:
    return blocks<Silu, T, 1>;
  case FusedCode::gelu:
    return blocks<GeluErf, T, 1>;
  case FusedCode::geluTanh:
    return blocks<GeluTanh, T, 1>;
  case FusedCode::geluGrad:
    return blocks<GeluErfGrad, T, 2>;
  case FusedCode::geluTanhGrad:
    return blocks<GeluTanhGrad, T, 2>;
  case FusedCode::siluGrad:
    return blocks<SiluGrad, T, 2>;
  default:
    return nullptr;
  }
}

//===-- bools --------------------------------------------------------------===//
// A byte each, 0 and 1; a tensor's may be others, which are 1.

HWY_INLINE M loadFlags(const uint8_t *p, size_t count) {
  const hn::Rebind<uint8_t, F> bytes;
  const U u;
  HWY_ALIGN uint8_t padded[HWY_MAX_BYTES / sizeof(float)] = {};
  if (count < lanes())
    std::memcpy(padded, p, count);
  return hn::RebindMask(kF, hn::Ne(hn::PromoteTo(u, hn::LoadU(bytes, count < lanes() ? padded : p)), hn::Zero(u)));
}

template <typename Op, typename T> void compare(const void *const *from, void *to, int64_t n) {
  const T *a = static_cast<const T *>(from[0]), *b = static_cast<const T *>(from[1]);
  auto *y = static_cast<uint8_t *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(Op::apply(loadPart(a + i, count), loadPart(b + i, count)), y + i, count);
  });
}
template <typename T> void isNan(const void *const *from, void *to, int64_t n) {
  const T *x = static_cast<const T *>(from[0]);
  auto *y = static_cast<uint8_t *>(to);
  forVectors(0, n,
             [&](int64_t i, size_t count) HWY_ATTR { storePart(hn::IsNaN(loadPart(x + i, count)), y + i, count); });
}
/// condition ? a : b
template <typename T> void select(const void *const *from, void *to, int64_t n) {
  const auto *condition = static_cast<const uint8_t *>(from[0]);
  const T *a = static_cast<const T *>(from[1]), *b = static_cast<const T *>(from[2]);
  T *y = static_cast<T *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    const M isTrue = loadFlags(condition + i, count);
    storePartExact(hn::IfThenElse(isTrue, loadPart(a + i, count), loadPart(b + i, count)), y + i, count);
  });
}
/// condition ? x scale : 0, with a scale in fp32
template <typename T> void masked(const void *const *from, void *to, int64_t n) {
  const T *x = static_cast<const T *>(from[0]);
  const auto *condition = static_cast<const uint8_t *>(from[1]);
  const auto *scale = static_cast<const float *>(from[2]);
  T *y = static_cast<T *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    const V scaled = hn::Mul(loadPart(x + i, count), loadPart(scale + i, count));
    storePart(hn::IfThenElseZero(loadFlags(condition + i, count), scaled), y + i, count);
  });
}

template <typename T> FusedStep flagsStep(FusedCode code) {
  switch (code) {
  case FusedCode::equal:
    return compare<Equal, T>;
  case FusedCode::less:
    return compare<Less, T>;
  case FusedCode::lessEqual:
    return compare<LessEqual, T>;
  case FusedCode::isNan:
    return isNan<T>;
  case FusedCode::select:
    return select<T>;
  case FusedCode::masked:
    return masked<T>;
  default:
    return nullptr;
  }
}

/// Of bools alone.
template <typename Fn> void logic(const void *const *from, void *to, int64_t n) {
  const auto *a = static_cast<const uint8_t *>(from[0]), *b = static_cast<const uint8_t *>(from[1]);
  auto *y = static_cast<uint8_t *>(to);
  for (int64_t i = 0; i < n; ++i)
    y[i] = Fn()(a[i] != 0, b[i] != 0);
}
void logicNot(const void *const *from, void *to, int64_t n) {
  const auto *a = static_cast<const uint8_t *>(from[0]);
  auto *y = static_cast<uint8_t *>(to);
  for (int64_t i = 0; i < n; ++i)
    y[i] = a[i] == 0;
}
FusedStep logicStep(FusedCode code) {
  switch (code) {
  case FusedCode::boolAnd:
    return logic<std::bit_and<>>;
  case FusedCode::boolOr:
    return logic<std::bit_or<>>;
  case FusedCode::boolXor:
    return logic<std::bit_xor<>>;
  case FusedCode::boolNot:
    return logicNot;
  default:
    return nullptr;
  }
}

FusedStep fusedStep(FusedCode code, DType type) {
  if (type == DType::boolean)
    return logicStep(code);
  return withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const FusedStep step = numbersStep<T>(code);
    return step ? step : flagsStep<T>(code);
  });
}

//===-- from type to type, and from place to place -------------------------===//

template <typename From, typename To> void castNumbers(const void *const *from, void *to, int64_t n) {
  const auto *x = static_cast<const From *>(from[0]);
  auto *y = static_cast<To *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR { storePart(loadPart(x + i, count), y + i, count); });
}
/// NaN is true, which Ne would not say.
template <typename T> void castToBools(const void *const *from, void *to, int64_t n) {
  const auto *x = static_cast<const T *>(from[0]);
  auto *y = static_cast<uint8_t *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(hn::Not(hn::Eq(loadPart(x + i, count), hn::Zero(kF))), y + i, count);
  });
}
template <typename T> void castBools(const void *const *from, void *to, int64_t n) {
  const auto *x = static_cast<const uint8_t *>(from[0]);
  auto *y = static_cast<T *>(to);
  forVectors(0, n,
             [&](int64_t i, size_t count) HWY_ATTR { storePart(asNumbers(loadFlags(x + i, count)), y + i, count); });
}
void castBoolsToBools(const void *const *from, void *to, int64_t n) {
  const auto *x = static_cast<const uint8_t *>(from[0]);
  auto *y = static_cast<uint8_t *>(to);
  for (int64_t i = 0; i < n; ++i)
    y[i] = x[i] != 0;
}
FusedStep fusedCast(DType from, DType to) {
  if (from == DType::boolean && to == DType::boolean)
    return castBoolsToBools;
  if (from == DType::boolean)
    return withFast(to, [&](auto tag) -> FusedStep { return castBools<TypeOf<decltype(tag)>>; });
  return withFast(from, [&](auto tag) -> FusedStep {
    using From = TypeOf<decltype(tag)>;
    if (to == DType::boolean)
      return castToBools<From>;
    return withFast(to, [&](auto of) -> FusedStep { return castNumbers<From, TypeOf<decltype(of)>>; });
  });
}

/// Where a run is a vector or more, its last one may overlap the one before.
HWY_INLINE void copyRun(const uint8_t *x, uint8_t *y, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t step = hn::Lanes(d);
  if (bytes < step) {
    std::memcpy(y, x, bytes);
    return;
  }
  for (size_t i = 0; i + step < bytes; i += step)
    hn::StoreU(hn::LoadU(d, x + i), d, y + i);
  hn::StoreU(hn::LoadU(d, x + bytes - step), d, y + bytes - step);
}
void copyRuns(const void *from, const int64_t *starts, int64_t runs, int64_t length, int64_t size, void *to) {
  const auto *x = static_cast<const uint8_t *>(from);
  auto *y = static_cast<uint8_t *>(to);
  for (int64_t run = 0; run < runs; ++run, y += length * size)
    copyRun(x + starts[run] * size, y, static_cast<size_t>(length * size));
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zc::cpu {
HWY_EXPORT(fusedStep);
HWY_EXPORT(fusedPair);
HWY_EXPORT(fusedCast);
HWY_EXPORT(copyRuns);

FusedStep stepOf(FusedCode code, DType type) { return HWY_DYNAMIC_DISPATCH(fusedStep)(code, type); }
FusedStep pairOf(FusedCode first, FusedCode second, size_t place, DType type) {
  return HWY_DYNAMIC_DISPATCH(fusedPair)(first, second, place, type);
}
FusedStep castOf(DType from, DType to) { return HWY_DYNAMIC_DISPATCH(fusedCast)(from, to); }
void copyRunsOf(const void *x, const int64_t *starts, int64_t runs, int64_t length, int64_t size, void *y) {
  HWY_DYNAMIC_DISPATCH(copyRuns)(x, starts, runs, length, size, y);
}

} // namespace zc::cpu
#endif
