//===- Stored.h - elements as they are stored, and what is computed with them ------===//
//
// Kernels are templates over a storage type. Element<T> says what it computes in: bf16 and f16 in float, bool in int,
// the rest in itself. Sums run in double for every float and in 64 bits, wrapping, for integers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Float16.h"

#include <type_traits>

namespace zc::formula {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

template <typename T> struct Element {
  using Compute = T;
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double,
                                 std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>;
  static constexpr bool isFloat = std::is_floating_point_v<T>;
  static ZC_HD T load(T x) { return x; }
  static ZC_HD T store(T x) { return x; }
};
template <> struct Element<Bf16> {
  using Compute = float;
  using Sum = double;
  static constexpr bool isFloat = true;
  static ZC_HD float load(Bf16 x) { return fromBf16(x.bits); }
  static ZC_HD Bf16 store(float x) { return {toBf16(x)}; }
};
template <> struct Element<F16> {
  using Compute = float;
  using Sum = double;
  static constexpr bool isFloat = true;
  static ZC_HD float load(F16 x) { return fromF16(x.bits); }
  static ZC_HD F16 store(float x) { return {toF16(x)}; }
};
template <> struct Element<Bool> {
  using Compute = int;
  using Sum = int64_t;
  static constexpr bool isFloat = false;
  static ZC_HD int load(Bool x) { return x.byte != 0; }
  static ZC_HD Bool store(int x) { return {static_cast<uint8_t>(x != 0)}; }
};

template <typename T> using Compute = typename Element<T>::Compute;
template <typename T> using Sum = typename Element<T>::Sum;
template <typename T> ZC_HD auto load(T x) { return Element<T>::load(x); }
template <typename T> ZC_HD T store(Compute<T> x) { return Element<T>::store(x); }
/// A sum, rounded once to the element type.
template <typename T> ZC_HD T storeSum(Sum<T> x) { return Element<T>::store(static_cast<Compute<T>>(x)); }

} // namespace zc::formula
