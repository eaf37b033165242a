//===- Reduce.h - what reductions over axes do with elements ------------------------===//
//
// start<T>() begins, apply(a, b) joins two values, finish(a, n) ends a reduction of n elements; all in Sum<T>.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/formula/Elements.h"

namespace zc::formula {

struct SumOf {
  template <typename T> static ZC_HD Sum<T> start() { return 0; }
  template <typename S> static ZC_HD S apply(S a, S b) { return a + b; }
  template <typename S> static ZC_HD S finish(S acc, int64_t) { return acc; }
};
struct MeanOf : SumOf {
  template <typename S> static ZC_HD S finish(S acc, int64_t n) {
    if constexpr (std::is_floating_point_v<S>)
      return acc / static_cast<S>(n);
    else
      return n ? acc / static_cast<S>(n) : 0;
  }
};
/// NaN wins.
struct LargestOf : SumOf {
  template <typename T> static ZC_HD Sum<T> start() {
    if constexpr (Element<T>::isFloat)
      return -std::numeric_limits<double>::infinity();
    else if constexpr (std::is_same_v<T, Bool>)
      return 0;
    else
      return std::numeric_limits<T>::min();
  }
  template <typename S> static ZC_HD S apply(S a, S b) { return b > a || b != b ? b : a; }
};
struct SmallestOf : SumOf {
  template <typename T> static ZC_HD Sum<T> start() {
    if constexpr (Element<T>::isFloat)
      return std::numeric_limits<double>::infinity();
    else if constexpr (std::is_same_v<T, Bool>)
      return 1;
    else
      return std::numeric_limits<T>::max();
  }
  template <typename S> static ZC_HD S apply(S a, S b) { return b < a || b != b ? b : a; }
};
struct ProductOf : SumOf {
  template <typename T> static ZC_HD Sum<T> start() { return 1; }
  template <typename S> static ZC_HD S apply(S a, S b) { return a * b; }
};

} // namespace zc::formula
