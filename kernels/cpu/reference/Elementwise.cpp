// One output element per index: unary, binary with numpy broadcasting, select. Any operand of the result's type may be
// overwritten by the result: each element is read before it is written.
#include "kernels/cpu/Support.h"

namespace zc::cpu {
namespace {

//===-- unary --------------------------------------------------------------===//

struct Neg {
  template <typename T> static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<uint64_t>(x)); // wraps, where -x would overflow
    else
      return -x;
  }
};
struct Abs {
  template <typename T> static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg::apply(x) : x;
    else
      return std::fabs(x);
  }
};
struct Sign {
  template <typename T> static T apply(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }
};
#define ZC_UNARY(NAME, FORMULA)                                                                                        \
  struct NAME {                                                                                                        \
    template <typename T> static T apply(T x) { return FORMULA; }                                                      \
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
ZC_UNARY(Sigmoid, 1 / (1 + std::exp(-x)))
ZC_UNARY(Erf, std::erf(x))
ZC_UNARY(Relu, x > 0 || std::isnan(x) ? x : T(0))
ZC_UNARY(Expm1, std::expm1(x))
ZC_UNARY(Softplus, std::isnan(x) ? x : std::max(x, T(0)) + std::log1p(std::exp(-std::fabs(x))))
ZC_UNARY(Silu, x / (1 + std::exp(-x)))
ZC_UNARY(Floor, std::floor(x))
ZC_UNARY(Ceil, std::ceil(x))
ZC_UNARY(Round, std::nearbyint(x))
#undef ZC_UNARY

/// Of each bit, or of the bool.
struct Not {
  template <typename T> static T apply(T x) { return static_cast<T>(~x); }
};
struct BoolNot {
  static int apply(int x) { return x == 0; }
};

template <typename Op, typename T> Prepared prepareUnary(const KernelSpec &spec) {
  return makeKernel([n = spec.operands[0].numElements()](void *const *operands, const StepContext &) {
    const T *x = as<T>(operands[0]);
    T *y = as<T>(operands[1]);
    for (int64_t i = 0; i < n; ++i)
      y[i] = store<T>(Op::apply(load(x[i])));
  });
}

Status checkUnary(const KernelSpec &spec, bool (*accepts)(DType), const char *what) {
  return Check(spec)
      .counts(1, 1)
      .that([&] { return spec.operands[0] == spec.operands[1]; }, "a result of the operand's type")
      .that([&] { return accepts(spec.operands[0].dtype); }, what)
      .done();
}

template <typename Op> Prepared floatUnary(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkUnary(spec, isComputeFloat, "f32, bf16, f16 or f64"));
  return withFloat(spec.operands[0].dtype, [&](auto tag) { return prepareUnary<Op, TypeOf<decltype(tag)>>(spec); });
}

constexpr bool isAny(DType) { return true; }
constexpr bool isBool(DType type) { return type == DType::boolean; }
constexpr bool isBits(DType type) { return !isFloat(type); }

template <typename Op> Prepared anyUnary(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkUnary(spec, isAny, "any type"));
  return withElement(spec.operands[0].dtype, [&](auto tag) { return prepareUnary<Op, TypeOf<decltype(tag)>>(spec); });
}

Prepared prepareNot(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkUnary(spec, isBits, "bool or integers"));
  if (isBool(spec.operands[0].dtype))
    return prepareUnary<BoolNot, Bool>(spec);
  return withInteger(spec.operands[0].dtype, [&](auto tag) { return prepareUnary<Not, TypeOf<decltype(tag)>>(spec); });
}

Prepared prepareIsNan(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return spec.operands[0].dims == spec.operands[1].dims; }, "equal shapes")
                         .that([&] { return isComputeFloat(spec.operands[0].dtype); }, "f32, bf16, f16 or f64")
                         .that([&] { return isBool(spec.operands[1].dtype); }, "a bool result")
                         .done());
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements()](void *const *operands, const StepContext &) {
      for (int64_t i = 0; i < n; ++i)
        as<Bool>(operands[1])[i] = store<Bool>(std::isnan(load(as<T>(operands[0])[i])));
    });
  });
}

//===-- binary -------------------------------------------------------------===//

/// Integers wrap: computed unsigned, in 64 bits, where signed overflow would be undefined.
template <typename T> uint64_t wide(T x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); }

#define ZC_ARITHMETIC(NAME, SIGN)                                                                                      \
  struct NAME {                                                                                                        \
    template <typename T> static T apply(T a, T b) {                                                                   \
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
template <typename T> bool isMinusOne(T x) { return std::is_signed_v<T> && wide(x) == wide(-1); }

/// x / 0 and x mod 0 of integers are 0: graphs divide speculatively and select afterwards.
struct Div {
  template <typename T> static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return b == 0 ? T(0) : isMinusOne(b) ? Neg::apply(a) : static_cast<T>(a / b);
    else
      return a / b;
  }
};
struct Mod {
  template <typename T> static T apply(T a, T b) {
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
  template <typename T> static T apply(T a, T b) {
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
  template <typename T> static T apply(T a, T b) { return a < b ? a : b <= a ? b : static_cast<T>(a + b); }
};
struct Max {
  template <typename T> static T apply(T a, T b) { return a > b ? a : b >= a ? b : static_cast<T>(a + b); }
};
#define ZC_PREDICATE(NAME, FORMULA)                                                                                    \
  struct NAME {                                                                                                        \
    template <typename T> static int apply(T a, T b) { return FORMULA; }                                               \
  };
ZC_PREDICATE(Equal, a == b)
ZC_PREDICATE(Less, a < b)
ZC_PREDICATE(LessEqual, a <= b)
#undef ZC_PREDICATE
/// Of each bit; bools are 0 and 1.
#define ZC_BITS(NAME, SIGN)                                                                                            \
  struct NAME {                                                                                                        \
    template <typename T> static T apply(T a, T b) { return static_cast<T>(a SIGN b); }                                \
  };
ZC_BITS(And, &)
ZC_BITS(Or, |)
ZC_BITS(Xor, ^)
#undef ZC_BITS
/// Shifts of whole words are 0, which C++ leaves open; bits that come in are 0.
struct ShiftLeft {
  template <typename T> static T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(b) >= 8 * sizeof(T) ? T(0) : static_cast<T>(static_cast<U>(a) << static_cast<U>(b));
  }
};
struct ShiftRight {
  template <typename T> static T apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(b) >= 8 * sizeof(T) ? T(0) : static_cast<T>(static_cast<U>(a) >> static_cast<U>(b));
  }
};

template <typename Op, typename T, typename R> Prepared prepareBinary(const KernelSpec &spec) {
  const Dims &result = spec.operands[2].dims;
  Walk<3> walk(result, {rowMajorStrides(result), broadcastStrides(spec.operands[0].dims, result),
                        broadcastStrides(spec.operands[1].dims, result)});
  return makeKernel([walk](void *const *operands, const StepContext &) {
    const T *a = as<T>(operands[0]), *b = as<T>(operands[1]);
    R *y = as<R>(operands[2]);
    walk.forEach([&](const Walk<3>::Offsets &at) { y[at[0]] = store<R>(Op::apply(load(a[at[1]]), load(b[at[2]]))); });
  });
}

Status checkBinary(const KernelSpec &spec, bool (*accepts)(DType), bool predicate) {
  const auto &types = spec.operands;
  return Check(spec)
      .counts(2, 1)
      .that([&] { return types[0].dtype == types[1].dtype && accepts(types[0].dtype); },
            "operands of one type it computes")
      .that([&] { return types[2].dtype == (predicate ? DType::boolean : types[0].dtype); }, "another result type")
      .that([&] { return broadcastsTo(types[0].dims, types[2].dims) && broadcastsTo(types[1].dims, types[2].dims); },
            "operands that broadcast to the result")
      .done();
}

template <typename Op> Prepared arithmetic(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkBinary(spec, isAny, false));
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return prepareBinary<Op, T, T>(spec);
  });
}
template <typename Op> Prepared compare(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkBinary(spec, isAny, true));
  return withElement(spec.operands[0].dtype,
                     [&](auto tag) { return prepareBinary<Op, TypeOf<decltype(tag)>, Bool>(spec); });
}
template <typename Op> Prepared logic(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkBinary(spec, isBits, false));
  return withInteger(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return prepareBinary<Op, T, T>(spec);
  });
}

//===-- select -------------------------------------------------------------===//

Prepared prepareSelect(const KernelSpec &spec) {
  const auto &types = spec.operands;
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(3, 1)
                         .that([&] { return isBool(types[0].dtype); }, "a bool condition")
                         .that([&] { return types[1].dtype == types[3].dtype && types[2].dtype == types[3].dtype; },
                               "one element type")
                         .that(
                             [&] {
                               return broadcastsTo(types[0].dims, types[3].dims) &&
                                      broadcastsTo(types[1].dims, types[3].dims) &&
                                      broadcastsTo(types[2].dims, types[3].dims);
                             },
                             "operands that broadcast to the result")
                         .done());
  const Dims &result = types[3].dims;
  Walk<4> walk(result, {rowMajorStrides(result), broadcastStrides(types[0].dims, result),
                        broadcastStrides(types[1].dims, result), broadcastStrides(types[2].dims, result)});
  return withBytes(types[3].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([walk](void *const *operands, const StepContext &) {
      walk.forEach([&](const Walk<4>::Offsets &at) {
        as<T>(operands[3])[at[0]] =
            as<uint8_t>(operands[0])[at[1]] ? as<T>(operands[1])[at[2]] : as<T>(operands[2])[at[3]];
      });
    });
  });
}

} // namespace

void addElementwise(KernelRegistry &registry) {
  registry.add("neg", anyUnary<Neg>);
  registry.add("abs", anyUnary<Abs>);
  registry.add("sign", anyUnary<Sign>);
  registry.add("exp", floatUnary<Exp>);
  registry.add("log", floatUnary<Log>);
  registry.add("sqrt", floatUnary<Sqrt>);
  registry.add("reciprocal", floatUnary<Reciprocal>);
  registry.add("sin", floatUnary<Sin>);
  registry.add("cos", floatUnary<Cos>);
  registry.add("tan", floatUnary<Tan>);
  registry.add("asin", floatUnary<Asin>);
  registry.add("acos", floatUnary<Acos>);
  registry.add("atan", floatUnary<Atan>);
  registry.add("sinh", floatUnary<Sinh>);
  registry.add("cosh", floatUnary<Cosh>);
  registry.add("asinh", floatUnary<Asinh>);
  registry.add("acosh", floatUnary<Acosh>);
  registry.add("atanh", floatUnary<Atanh>);
  registry.add("tanh", floatUnary<Tanh>);
  registry.add("sigmoid", floatUnary<Sigmoid>);
  registry.add("erf", floatUnary<Erf>);
  registry.add("relu", floatUnary<Relu>);
  registry.add("expm1", floatUnary<Expm1>);
  registry.add("softplus", floatUnary<Softplus>);
  registry.add("silu", floatUnary<Silu>);
  registry.add("floor", floatUnary<Floor>);
  registry.add("ceil", floatUnary<Ceil>);
  registry.add("round", floatUnary<Round>);
  registry.add("not", prepareNot);
  registry.add("is_nan", prepareIsNan);
  registry.add("add", arithmetic<Add>);
  registry.add("sub", arithmetic<Sub>);
  registry.add("mul", arithmetic<Mul>);
  registry.add("div", arithmetic<Div>);
  registry.add("pow", arithmetic<Pow>);
  registry.add("min", arithmetic<Min>);
  registry.add("max", arithmetic<Max>);
  registry.add("mod", arithmetic<Mod>);
  registry.add("equal", compare<Equal>);
  registry.add("less", compare<Less>);
  registry.add("less_equal", compare<LessEqual>);
  registry.add("and", logic<And>);
  registry.add("or", logic<Or>);
  registry.add("xor", logic<Xor>);
  registry.add("shift_left", logic<ShiftLeft>);
  registry.add("shift_right", logic<ShiftRight>);
  registry.add("select", prepareSelect);
}

} // namespace zc::cpu
