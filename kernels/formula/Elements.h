//===- Elements.h - from element types to the C++ types they are stored as -------===//
#pragma once

#include "base/Tensor.h"
#include "kernels/formula/Stored.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace zc::formula {

constexpr bool isFloat(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f64 || type == DType::f16;
}
/// The floats kernels compute on.
constexpr bool isComputeFloat(DType type) { return isFloat(type); }
constexpr bool isIndex(DType type) { return type == DType::i64 || type == DType::i32; }

template <typename T> struct Tag {
  using type = T;
};
template <typename TagType> using TypeOf = typename std::decay_t<TagType>::type;

/// fn(Tag<T>) for the storage type of a float. The caller has checked isFloat.
template <typename Fn> auto withFloat(DType type, Fn fn) {
  if (type == DType::bf16)
    return fn(Tag<Bf16>());
  if (type == DType::f16)
    return fn(Tag<F16>());
  if (type == DType::f64)
    return fn(Tag<double>());
  return fn(Tag<float>());
}

/// The types that the fast kernels are written for.
constexpr bool isFast(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

/// fn(Tag<T>) for one of these. The caller has checked isFast.
template <typename Fn> auto withFast(DType type, Fn fn) {
  if (type == DType::bf16)
    return fn(Tag<Bf16>());
  if (type == DType::f16)
    return fn(Tag<F16>());
  return fn(Tag<float>());
}

/// The opposite: the name of a fast kernel's storage type.
template <typename T>
constexpr DType dtypeOf = std::is_same_v<T, Bf16>  ? DType::bf16
                          : std::is_same_v<T, F16> ? DType::f16
                                                   : DType::f32;

/// fn(Tag<T>) for an integer or bool.
template <typename Fn> auto withInteger(DType type, Fn fn) {
  switch (type) {
  case DType::i32:
    return fn(Tag<int32_t>());
  case DType::i16:
    return fn(Tag<int16_t>());
  case DType::i8:
    return fn(Tag<int8_t>());
  case DType::u8:
    return fn(Tag<uint8_t>());
  case DType::u16:
    return fn(Tag<uint16_t>());
  case DType::u32:
    return fn(Tag<uint32_t>());
  case DType::u64:
    return fn(Tag<uint64_t>());
  case DType::boolean:
    return fn(Tag<Bool>());
  default:
    return fn(Tag<int64_t>());
  }
}

/// fn(Tag<T>) for any type.
template <typename Fn> auto withElement(DType type, Fn fn) {
  return isFloat(type) ? withFloat(type, fn) : withInteger(type, fn);
}

/// The same, for kernels that only store elements.
template <typename Fn> auto withStorage(DType type, Fn fn) { return withElement(type, fn); }

/// fn(Tag<int32_t or int64_t>) for index tensors.
template <typename Fn> auto withIndex(DType type, Fn fn) {
  return type == DType::i32 ? fn(Tag<int32_t>()) : fn(Tag<int64_t>());
}

/// fn(Tag<uintN_t>) for kernels that move elements without looking at them.
template <typename Fn> auto withBytes(DType type, Fn fn) {
  switch (sizeOf(type)) {
  case 1:
    return fn(Tag<uint8_t>());
  case 2:
    return fn(Tag<uint16_t>());
  case 4:
    return fn(Tag<uint32_t>());
  default:
    return fn(Tag<uint64_t>());
  }
}

} // namespace zc::formula
