// What the formulas use of the standard library, for NVRTC, which has none. Functions are those that nvcc takes.
#pragma once

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;

namespace std {

#define ZC_FUNCTION(NAME)                                                                                              \
  __device__ inline float NAME(float x) { return ::NAME##f(x); }
ZC_FUNCTION(exp)
ZC_FUNCTION(log)
ZC_FUNCTION(sqrt)
ZC_FUNCTION(sin)
ZC_FUNCTION(cos)
ZC_FUNCTION(tan)
ZC_FUNCTION(asin)
ZC_FUNCTION(acos)
ZC_FUNCTION(atan)
ZC_FUNCTION(sinh)
ZC_FUNCTION(cosh)
ZC_FUNCTION(asinh)
ZC_FUNCTION(acosh)
ZC_FUNCTION(atanh)
ZC_FUNCTION(tanh)
ZC_FUNCTION(erf)
ZC_FUNCTION(expm1)
ZC_FUNCTION(log1p)
ZC_FUNCTION(fabs)
ZC_FUNCTION(floor)
ZC_FUNCTION(ceil)
ZC_FUNCTION(nearbyint)
#undef ZC_FUNCTION
__device__ inline double sqrt(double x) { return ::sqrt(x); }
__device__ inline float pow(float x, float y) { return ::powf(x, y); }
__device__ inline float fmod(float x, float y) { return ::fmodf(x, y); }
__device__ inline bool isnan(float x) { return x != x; }
__device__ inline bool isnan(double x) { return x != x; }
using ::memcpy;

template <typename A, typename B> inline constexpr bool is_same_v = false;
template <typename A> inline constexpr bool is_same_v<A, A> = true;
template <typename T> inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <typename T>
inline constexpr bool is_signed_v = is_same_v<T, int8_t> || is_same_v<T, int16_t> || is_same_v<T, int32_t> ||
                                    is_same_v<T, int64_t> || is_floating_point_v<T>;
template <typename T>
inline constexpr bool is_integral_v = (is_signed_v<T> && !is_floating_point_v<T>) || is_same_v<T, uint8_t> ||
                                      is_same_v<T, uint16_t> || is_same_v<T, uint32_t> || is_same_v<T, uint64_t>;
template <bool Condition, typename A, typename B> struct conditional {
  using type = A;
};
template <typename A, typename B> struct conditional<false, A, B> {
  using type = B;
};
template <bool Condition, typename A, typename B> using conditional_t = typename conditional<Condition, A, B>::type;
// Of integers alone, which no fused program has.
template <typename T> struct make_unsigned;
template <typename T> using make_unsigned_t = typename make_unsigned<T>::type;
template <typename T> struct numeric_limits;

} // namespace std
