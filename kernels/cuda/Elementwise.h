//===- Elementwise.h - one output element per index --------------------------===//
//
// Functions of one, two and three tensors, and activations. Tensors that are whole or scalars go in
// packs of 16 bytes; others through StridedIndex, an element at a time. Each element is read before it is written, by
// the same thread: a result may lie over any operand of its type and shape. Limit: memory; goal 0.85 of a device copy.
//
// A kernel for each function and type that training moves much data through (f32, bf16, f16). What integers, doubles
// and comparisons need is chosen while a kernel runs (ChosenOf): ten times fewer kernels, which are compiled for each
// GPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/cuda/StridedIndex.h"
#include "kernels/formula/Activation.h"
#include "kernels/formula/Elementwise.h"
#include "kernels/shapes/ElementShapes.h"

namespace zc::cuda {

using namespace formula;

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

//===-- functions of elements ---------------------------------------------------===//

/// A function of formula/Elementwise.h on stored elements.
template <typename Op, typename T, typename R = T> struct Applied {
  ZC_HD R operator()(T x) const { return store<R>(Op::apply(load(x))); }
  ZC_HD R operator()(T a, T b) const { return store<R>(Op::apply(load(a), load(b))); }
};

/// Families of functions, by their numbers in them.
struct IntegerFunctions {
  ZC_CALLS_ANY template <typename Fn> static ZC_HD void forEach(Fn fn) {
    forAnyFunctions(fn);
    fn("not", Not());
  }
};
struct DoubleFunctions {
  ZC_CALLS_ANY template <typename Fn> static ZC_HD void forEach(Fn fn) {
    forFloatFunctions(fn);
    forAnyFunctions(fn);
  }
};
struct IntegerPairs {
  ZC_CALLS_ANY template <typename Fn> static ZC_HD void forEach(Fn fn) {
    forArithmetic(fn);
    forBitFunctions(fn);
  }
};
struct DoublePairs {
  ZC_CALLS_ANY template <typename Fn> static ZC_HD void forEach(Fn fn) { forArithmetic(fn); }
};
struct Comparisons {
  ZC_CALLS_ANY template <typename Fn> static ZC_HD void forEach(Fn fn) { forComparisons(fn); }
};

template <typename Family> int numberIn(const std::string &name) {
  int number = 0, found = -1;
  Family::forEach([&](const char *other, auto) {
    found = name == other ? number : found;
    ++number;
  });
  return found;
}

/// Function `number` of a family, chosen while it runs.
template <typename Family, typename T, typename R = T> struct ChosenOf {
  int number;
  explicit ChosenOf(const std::string &name) : number(numberIn<Family>(name)) {}
  ZC_HD R operator()(T x) const {
    R result{};
    int at = 0;
    Family::forEach([&](const char *, auto op) {
      if (at++ == number)
        result = store<R>(op.apply(load(x)));
    });
    return result;
  }
  ZC_HD R operator()(T a, T b) const {
    R result{};
    int at = 0;
    Family::forEach([&](const char *, auto op) {
      if (at++ == number)
        result = store<R>(op.apply(load(a), load(b)));
    });
    return result;
  }
};

/// Is a function taken on packs? Of long ones a pack would hold the code eight times, and they are not limited by
/// memory.
template <typename Op, typename... Ops> constexpr bool isOneOf = (std::is_same_v<Op, Ops> || ...);
template <typename Op>
constexpr bool isLong =
    isOneOf<Op, Pow, Mod, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Expm1, Softplus>;
template <typename F> constexpr bool takesPacks = true;
template <typename Op, typename T, typename R> constexpr bool takesPacks<Applied<Op, T, R>> = !isLong<Op>;
template <typename Family, typename T, typename R> constexpr bool takesPacks<ChosenOf<Family, T, R>> = false;

//===-- one tensor -----------------------------------------------------------===//

/// y[i] = f(x[i]), in packs where both are aligned.
template <typename From, typename To, typename F> struct MapBody {
  static constexpr int V = takesPacks<F> ? packOf<From, To>() : 1;
  const From *x;
  To *y;
  int64_t n;
  bool packed;
  F f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    Part part(index, n);
    int64_t whole = 0;
    if constexpr (V > 1) {
      whole = packed ? part.count / V * V : 0;
      block.template forEach<V>(whole, [&](int64_t i) {
        auto in = *reinterpret_cast<const Pack<From, V> *>(x + part.first + i);
        Pack<To, V> out;
        for (int k = 0; k < V; ++k)
          out.element[k] = f(in.element[k]);
        *reinterpret_cast<Pack<To, V> *>(y + part.first + i) = out;
      });
    }
    block.forEach(part.count - whole, [&](int64_t i) { y[part.first + whole + i] = f(x[part.first + whole + i]); });
  }
};

template <typename Target, typename From, typename To, typename F>
Prepared<Target> mapping(const KernelSpec &spec, F f) {
  return launching<Target>(spec, [n = spec.operands[0].numElements(), f](void *const *operands, const auto &launch) {
    using Body = MapBody<From, To, F>;
    auto *x = static_cast<const From *>(operands[0]);
    auto *y = static_cast<To *>(operands[1]);
    overElements(launch, n, Body{x, y, n, isAligned<Body::V>(x, y), f});
  });
}

template <typename T> struct GeluOf {
  bool tanh;
  ZC_HD T operator()(T x) const { return store<T>(gelu(load(x), tanh)); }
};
template <typename T> struct IsNanOf {
  ZC_HD Bool operator()(T x) const { return store<Bool>(std::isnan(load(x))); }
};

//===-- two tensors ----------------------------------------------------------===//

/// y = f(a, b) where a and b are whole or scalars, in packs where all are aligned.
template <typename T, typename R, typename F> struct ZipBody {
  static constexpr int V = takesPacks<F> ? packOf<T, R>() : 1;
  const T *a, *b;
  R *y;
  int64_t n;
  bool aIsScalar, bIsScalar, packed;
  F f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    Part part(index, n);
    int64_t whole = 0;
    if constexpr (V > 1) {
      whole = packed ? part.count / V * V : 0;
      block.template forEach<V>(whole, [&](int64_t i) {
        Pack<T, V> left, right;
        Pack<R, V> out;
        fill(left, a, aIsScalar, part.first + i);
        fill(right, b, bIsScalar, part.first + i);
        for (int k = 0; k < V; ++k)
          out.element[k] = f(left.element[k], right.element[k]);
        *reinterpret_cast<Pack<R, V> *>(y + part.first + i) = out;
      });
    }
    block.forEach(part.count - whole, [&](int64_t i) {
      int64_t at = part.first + whole + i;
      y[at] = f(a[aIsScalar ? 0 : at], b[bIsScalar ? 0 : at]);
    });
  }
  static ZC_HD void fill(Pack<T, V> &pack, const T *x, bool isScalar, int64_t at) {
    if (!isScalar)
      pack = *reinterpret_cast<const Pack<T, V> *>(x + at);
    else
      for (int k = 0; k < V; ++k)
        pack.element[k] = x[0];
  }
};

/// y = f(a, b), broadcast.
template <typename T, typename R, typename F> struct BroadcastBody {
  const T *a, *b;
  R *y;
  int64_t n;
  StridedIndex<3> places; ///< of y, a, b
  F f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    Part part(index, n);
    block.forEach(part.count, [&](int64_t i) {
      int64_t at[3];
      places.offsets(part.first + i, at);
      y[at[0]] = f(a[at[1]], b[at[2]]);
    });
  }
};

/// Operands a, b, y; a and b broadcast to y.
template <typename Target, typename T, typename R, typename F> Prepared<Target> zipping(const KernelSpec &spec, F f) {
  const shapes::Dims &result = spec.operands[2].dims;
  StridedIndex<3> places(
      shapes::Walk<3>(result, {shapes::rowMajorStrides(result), shapes::broadcastStrides(spec.operands[0].dims, result),
                               shapes::broadcastStrides(spec.operands[1].dims, result)}));
  return launching<Target>(
      spec, [n = spec.operands[2].numElements(), places, f](void *const *operands, const auto &launch) {
        using Body = ZipBody<T, R, F>;
        auto *a = static_cast<const T *>(operands[0]), *b = static_cast<const T *>(operands[1]);
        auto *y = static_cast<R *>(operands[2]);
        bool flat = (places.dense[1] || places.scalar[1]) && (places.dense[2] || places.scalar[2]);
        bool packed =
            isAligned<Body::V>(places.dense[1] ? a : nullptr, places.dense[2] ? b : nullptr) && isAligned<Body::V>(y);
        if (flat)
          overElements(launch, n, Body{a, b, y, n, !places.dense[1], !places.dense[2], packed, f});
        else
          overElements(launch, n, BroadcastBody<T, R, F>{a, b, y, n, places, f});
      });
}

template <typename T> struct GeluGradOf {
  bool tanh;
  ZC_HD T operator()(T grad, T x) const { return store<T>(load(grad) * geluSlope(load(x), tanh)); }
};
template <typename T> struct SiluGradOf {
  ZC_HD T operator()(T grad, T x) const { return store<T>(load(grad) * siluSlope(load(x))); }
};

//===-- three tensors ----------------------------------------------------------===//

/// y = condition ? a : b, broadcast; T is as wide as the elements.
template <typename T> struct SelectBody {
  const uint8_t *condition;
  const T *a, *b;
  T *y;
  int64_t n;
  bool flat;
  StridedIndex<4> places; ///< of y, condition, a, b
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    Part part(index, n);
    block.forEach(part.count, [&](int64_t i) {
      int64_t number = part.first + i, at[4];
      if (flat)
        for (int t = 0; t < 4; ++t)
          at[t] = places.dense[t] ? number : 0;
      else
        places.offsets(number, at);
      y[at[0]] = condition[at[1]] ? a[at[2]] : b[at[3]];
    });
  }
};

template <typename Target> Prepared<Target> prepareSelect(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkSelect(spec));
  const shapes::Dims &result = spec.operands[3].dims;
  auto along = [&](size_t i) { return shapes::broadcastStrides(spec.operands[i].dims, result); };
  StridedIndex<4> places(shapes::Walk<4>(result, {shapes::rowMajorStrides(result), along(0), along(1), along(2)}));
  bool flat = true;
  for (size_t t = 1; t < 4; ++t)
    flat = flat && (places.dense[t] || places.scalar[t]);
  return withBytes(spec.operands[3].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [n = spec.operands[3].numElements(), flat, places](void *const *operands,
                                                                                      const auto &launch) {
      overElements(launch, n,
                   SelectBody<T>{static_cast<const uint8_t *>(operands[0]), static_cast<const T *>(operands[1]),
                                 static_cast<const T *>(operands[2]), static_cast<T *>(operands[3]), n, flat, places});
    });
  });
}

//===-- the registry's names ----------------------------------------------------===//

/// Integers and bools: all functions of one type are one kernel, and those of pairs two.
template <typename Target, typename Family> Prepared<Target> mapIntegers(const KernelSpec &spec) {
  return withInteger(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return mapping<Target, T, T>(spec, ChosenOf<Family, T>(spec.name));
  });
}

template <typename Target> Prepared<Target> prepareNot(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkUnary(spec, shapes::isBits, "bool or integers"));
  if (shapes::isBool(spec.operands[0].dtype))
    return mapping<Target, Bool, Bool>(spec, Applied<BoolNot, Bool>());
  return mapIntegers<Target, IntegerFunctions>(spec);
}

template <typename Target> Prepared<Target> prepareIsNan(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkIsNan(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return mapping<Target, T, Bool>(spec, IsNanOf<T>());
  });
}

template <typename Target> Prepared<Target> prepareGelu(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkActivation(spec, 1));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return mapping<Target, T, T>(spec, GeluOf<T>{spec.getInt("tanh", 0) != 0});
  });
}
template <typename Target> Prepared<Target> prepareGeluGrad(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkActivation(spec, 2));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return zipping<Target, T, T>(spec, GeluGradOf<T>{spec.getInt("tanh", 0) != 0});
  });
}
template <typename Target> Prepared<Target> prepareSiluGrad(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkActivation(spec, 2));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return zipping<Target, T, T>(spec, SiluGradOf<T>());
  });
}

/// A function of one float.
template <typename Target, typename Op> Prepared<Target> mapFloats(const KernelSpec &spec) {
  if (spec.operands[0].dtype == DType::f64)
    return mapping<Target, double, double>(spec, ChosenOf<DoubleFunctions, double>(spec.name));
  return withFast(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return mapping<Target, T, T>(spec, Applied<Op, T>());
  });
}
template <typename Target, typename Op> Prepared<Target> prepareFloatFunction(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkUnary(spec, isComputeFloat, "f32, bf16, f16 or f64"));
  return mapFloats<Target, Op>(spec);
}
template <typename Target, typename Op> Prepared<Target> prepareAnyFunction(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkUnary(spec, shapes::isAny, "any type"));
  return isFloat(spec.operands[0].dtype) ? mapFloats<Target, Op>(spec) : mapIntegers<Target, IntegerFunctions>(spec);
}

template <typename Target> Prepared<Target> zipIntegers(const KernelSpec &spec) {
  return withInteger(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return zipping<Target, T, T>(spec, ChosenOf<IntegerPairs, T>(spec.name));
  });
}
template <typename Target, typename Op> Prepared<Target> prepareArithmetic(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkBinary(spec, shapes::isAny, false));
  DType type = spec.operands[0].dtype;
  if (!isFloat(type))
    return zipIntegers<Target>(spec);
  if (type == DType::f64)
    return zipping<Target, double, double>(spec, ChosenOf<DoublePairs, double>(spec.name));
  return withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return zipping<Target, T, T>(spec, Applied<Op, T>());
  });
}
template <typename Target> Prepared<Target> prepareComparison(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkBinary(spec, shapes::isAny, true));
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return zipping<Target, T, Bool>(spec, ChosenOf<Comparisons, T, Bool>(spec.name));
  });
}
template <typename Target> Prepared<Target> prepareBitFunction(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkBinary(spec, shapes::isBits, false));
  return zipIntegers<Target>(spec);
}

template <typename Target, typename Registry> void addFunctions(Registry &registry) {
  forFloatFunctions([&](const char *name, auto op) { registry.add(name, prepareFloatFunction<Target, decltype(op)>); });
  forAnyFunctions([&](const char *name, auto op) { registry.add(name, prepareAnyFunction<Target, decltype(op)>); });
  registry.add("not", prepareNot<Target>);
  registry.add("is_nan", prepareIsNan<Target>);
  registry.add("gelu", prepareGelu<Target>);
}
template <typename Target, typename Registry> void addArithmetic(Registry &registry) {
  forArithmetic([&](const char *name, auto op) { registry.add(name, prepareArithmetic<Target, decltype(op)>); });
  forComparisons([&](const char *name, auto) { registry.add(name, prepareComparison<Target>); });
  forBitFunctions([&](const char *name, auto) { registry.add(name, prepareBitFunction<Target>); });
  registry.add("gelu_grad", prepareGeluGrad<Target>);
  registry.add("silu_grad", prepareSiluGrad<Target>);
  registry.add("select", prepareSelect<Target>);
}
} // namespace zc::cuda
