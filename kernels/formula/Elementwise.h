//===- Elementwise.h - what one element becomes --------------------------------===//
//
// Functions of the graph dialect's operations on one element, in its compute type (Elements.h), for CPUs' plain kernels
// and GPUs' alike. `apply` is given and gives a Compute<T>.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/formula/Activation.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

/// Stands before a template of both processors that calls what it is given, on the one that this is for.
#ifdef __CUDACC__
#define ZC_CALLS_ANY _Pragma("nv_exec_check_disable")
#else
#define ZC_CALLS_ANY
#endif

namespace zc::formula {

//===-- unary --------------------------------------------------------------===//

struct Neg {
  template <typename T> static ZC_HD T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<uint64_t>(x)); // wraps, where -x would overflow
    else
      return -x;
  }
};
struct Abs {
  template <typename T> static ZC_HD T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg::apply(x) : x;
    else
      return std::fabs(x);
  }
};
struct Sign {
  template <typename T> static ZC_HD T apply(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }
};
#define ZC_UNARY(NAME, FORMULA)                                                                                        \
  struct NAME {                                                                                                        \
    template <typename T> static ZC_HD T apply(T x) { return FORMULA; }                                                \
  };
ZC_UNARY(Exp, std::exp(x))
ZC_UNARY(Log, std::log(x))
ZC_UNARY(Sqrt, std::sqrt(x))
ZC_UNARY(Reciprocal, 1 / x)
ZC_UNARY(Sin, std::sin(x))
ZC_UNARY(Cos, std::cos(x))
ZC_UNARY(Tan, std::tan(x))
ZC_UNARY(Asin, std::asin(x))
ZC_UNARY(Acos, std::acos(x))
ZC_UNARY(Atan, std::atan(x))
ZC_UNARY(Sinh, std::sinh(x))
ZC_UNARY(Cosh, std::cosh(x))
ZC_UNARY(Asinh, std::asinh(x))
ZC_UNARY(Acosh, std::acosh(x))
ZC_UNARY(Atanh, std::atanh(x))
ZC_UNARY(Tanh, std::tanh(x))
ZC_UNARY(Sigmoid, logistic(x))
ZC_UNARY(Erf, std::erf(x))
ZC_UNARY(Relu, x > 0 || std::isnan(x) ? x : T(0))
ZC_UNARY(Expm1, std::expm1(x))
ZC_UNARY(Softplus, std::isnan(x) ? x : (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::fabs(x))))
ZC_UNARY(Silu, logistic(x) * x)
ZC_UNARY(Floor, std::floor(x))
ZC_UNARY(Ceil, std::ceil(x))
ZC_UNARY(Round, std::nearbyint(x))
#undef ZC_UNARY

/// Of each bit, or of the bool.
struct Not {
  template <typename T> static ZC_HD T apply(T x) { return static_cast<T>(~x); }
};
struct BoolNot {
  static ZC_HD int apply(int x) { return x == 0; }
};

//===-- binary -------------------------------------------------------------===//

/// Integers wrap: computed unsigned, in 64 bits, where signed overflow would be undefined.
template <typename T> ZC_HD uint64_t wide(T x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); }

#define ZC_ARITHMETIC(NAME, SIGN)                                                                                      \
  struct NAME {                                                                                                        \
    template <typename T> static ZC_HD T apply(T a, T b) {                                                             \
      if constexpr (std::is_integral_v<T>)                                                                             \
        return static_cast<T>(wide(a) SIGN wide(b));                                                                   \
      else                                                                                                             \
        return a SIGN b;                                                                                               \
    }                                                                                                                  \
  };
ZC_ARITHMETIC(Add, +)
ZC_ARITHMETIC(Sub, -)
ZC_ARITHMETIC(Mul, *)
#undef ZC_ARITHMETIC

/// -1, by which a quotient may overflow.
template <typename T> ZC_HD bool isMinusOne(T x) { return std::is_signed_v<T> && wide(x) == wide(-1); }

/// x / 0 and x mod 0 of integers are 0: graphs divide speculatively and select afterwards.
struct Div {
  template <typename T> static ZC_HD T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return b == 0 ? T(0) : isMinusOne(b) ? Neg::apply(a) : static_cast<T>(a / b);
    else
      return a / b;
  }
};
struct Mod {
  template <typename T> static ZC_HD T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0 || isMinusOne(b))
        return T(0);
      T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      T rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
  }
};
struct Pow {
  template <typename T> static ZC_HD T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b < 0)
        return a == 1 ? T(1) : isMinusOne(a) ? static_cast<T>(wide(b) % 2 ? -1 : 1) : T(0);
      uint64_t result = 1, base = wide(a);
      for (uint64_t exponent = wide(b); exponent; exponent >>= 1, base *= base)
        result *= exponent & 1 ? base : 1;
      return static_cast<T>(result);
    } else {
      return std::pow(a, b);
    }
  }
};
/// NaN wins: where neither compares, a + b is NaN.
struct Min {
  template <typename T> static ZC_HD T apply(T a, T b) { return a < b ? a : b <= a ? b : static_cast<T>(a + b); }
};
struct Max {
  template <typename T> static ZC_HD T apply(T a, T b) { return a > b ? a : b >= a ? b : static_cast<T>(a + b); }
};
#define ZC_PREDICATE(NAME, FORMULA)                                                                                    \
  struct NAME {                                                                                                        \
    template <typename T> static ZC_HD int apply(T a, T b) { return FORMULA; }                                         \
  };
ZC_PREDICATE(Equal, a == b)
ZC_PREDICATE(Less, a < b)
ZC_PREDICATE(LessEqual, a <= b)
#undef ZC_PREDICATE
/// Of each bit; bools are 0 and 1.
#define ZC_BITS(NAME, SIGN)                                                                                            \
  struct NAME {                                                                                                        \
    template <typename T> static ZC_HD T apply(T a, T b) { return static_cast<T>(a SIGN b); }                          \
  };
ZC_BITS(And, &)
ZC_BITS(Or, |)
ZC_BITS(Xor, ^)
#undef ZC_BITS
/// Shifts of whole words are 0, which C++ leaves open; bits that come in are 0.
struct ShiftLeft {
  template <typename T> static ZC_HD T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(b) >= 8 * sizeof(T) ? T(0) : static_cast<T>(static_cast<U>(a) << static_cast<U>(b));
  }
};
struct ShiftRight {
  template <typename T> static ZC_HD T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(b) >= 8 * sizeof(T) ? T(0) : static_cast<T>(static_cast<U>(a) >> static_cast<U>(b));
  }
};

//===-- names ----------------------------------------------------------------===//
//
// Which kernel is which function: fn(name, Function()) for each, on a host or a GPU.

/// Floats.
ZC_CALLS_ANY template <typename Fn> ZC_HD void forFloatFunctions(Fn fn) {
  fn("exp", Exp());
  fn("log", Log());
  fn("sqrt", Sqrt());
  fn("reciprocal", Reciprocal());
  fn("sin", Sin());
  fn("cos", Cos());
  fn("tan", Tan());
  fn("asin", Asin());
  fn("acos", Acos());
  fn("atan", Atan());
  fn("sinh", Sinh());
  fn("cosh", Cosh());
  fn("asinh", Asinh());
  fn("acosh", Acosh());
  fn("atanh", Atanh());
  fn("tanh", Tanh());
  fn("sigmoid", Sigmoid());
  fn("erf", Erf());
  fn("relu", Relu());
  fn("expm1", Expm1());
  fn("softplus", Softplus());
  fn("silu", Silu());
  fn("floor", Floor());
  fn("ceil", Ceil());
  fn("round", Round());
}
/// Any type.
ZC_CALLS_ANY template <typename Fn> ZC_HD void forAnyFunctions(Fn fn) {
  fn("neg", Neg());
  fn("abs", Abs());
  fn("sign", Sign());
}
/// Two of any type.
ZC_CALLS_ANY template <typename Fn> ZC_HD void forArithmetic(Fn fn) {
  fn("add", Add());
  fn("sub", Sub());
  fn("mul", Mul());
  fn("div", Div());
  fn("pow", Pow());
  fn("min", Min());
  fn("max", Max());
  fn("mod", Mod());
}
/// Two of any type to a bool.
ZC_CALLS_ANY template <typename Fn> ZC_HD void forComparisons(Fn fn) {
  fn("equal", Equal());
  fn("less", Less());
  fn("less_equal", LessEqual());
}
/// Two integers, or bools.
ZC_CALLS_ANY template <typename Fn> ZC_HD void forBitFunctions(Fn fn) {
  fn("and", And());
  fn("or", Or());
  fn("xor", Xor());
  fn("shift_left", ShiftLeft());
  fn("shift_right", ShiftRight());
}

} // namespace zc::formula
