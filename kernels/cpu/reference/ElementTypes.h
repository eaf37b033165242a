//===- ElementTypes.h - plain kernels that are compiled once for several element types ---------===//
//
// A loop for every combination of types takes the compiler longer than plain kernels are worth: they ask here for what
// depends on a type, element by element.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Support.h"
#include "kernels/formula/Reduce.h"

#include <cstring>

namespace zc::cpu {

/// Elements of an index tensor, i64 or i32.
class IndexElements {
public:
  explicit IndexElements(DType type) : isNarrow(type == DType::i32) {}
  int64_t get(const void *indices, int64_t i) const {
    return isNarrow ? static_cast<const int32_t *>(indices)[i] : static_cast<const int64_t *>(indices)[i];
  }
  void set(void *indices, int64_t i, int64_t value) const {
    if (isNarrow)
      static_cast<int32_t *>(indices)[i] = static_cast<int32_t>(value);
    else
      static_cast<int64_t *>(indices)[i] = value;
  }

private:
  bool isNarrow;
};

/// Elements of what is kept of rows in f64 or f32.
class StatElements {
public:
  explicit StatElements(DType type) : isWide(type == DType::f64) {}
  double get(const void *stats, int64_t i) const {
    return isWide ? static_cast<const double *>(stats)[i] : static_cast<double>(static_cast<const float *>(stats)[i]);
  }
  void set(void *stats, int64_t i, double value) const {
    if (isWide)
      static_cast<double *>(stats)[i] = value;
    else
      static_cast<float *>(stats)[i] = static_cast<float>(value);
  }

private:
  bool isWide;
};

/// A value under way, of whatever Sum<T> the elements have.
using SumStorage = uint64_t;

/// What a reduction (formula/Reduce.h) does with elements of one type.
struct ElementReduction {
  void (*start)(SumStorage &sum);
  void (*add)(SumStorage &sum, const void *x);
  void (*finish)(const SumStorage &sum, int64_t n, void *y); ///< of n elements, as one
};

template <typename Op, typename T> struct ReductionOf {
  using S = Sum<T>;
  static_assert(sizeof(S) <= sizeof(SumStorage));
  static S read(const SumStorage &sum) {
    S value;
    std::memcpy(&value, &sum, sizeof value);
    return value;
  }
  static void start(SumStorage &sum) {
    const S value = Op::template start<T>();
    std::memcpy(&sum, &value, sizeof value);
  }
  static void add(SumStorage &sum, const void *x) {
    const S value = Op::apply(read(sum), static_cast<S>(load(*static_cast<const T *>(x))));
    std::memcpy(&sum, &value, sizeof value);
  }
  static void finish(const SumStorage &sum, int64_t n, void *y) {
    *static_cast<T *>(y) = storeSum<T>(Op::finish(read(sum), n));
  }
};

template <typename Op> ElementReduction reductionOf(DType type) {
  return withElement(type, [](auto tag) -> ElementReduction {
    using Of = ReductionOf<Op, TypeOf<decltype(tag)>>;
    return {Of::start, Of::add, Of::finish};
  });
}

} // namespace zc::cpu
