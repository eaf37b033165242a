//===- StatisticTypes.h - from a shape with statistics to their C++ types -------===//
#pragma once

#include "kernels/cpu/Support.h"

namespace zc::cpu {

/// fn(Tag<storage>, Tag<statistics>).
template <typename Shape, typename Fn> Prepared withTypes(const Shape &s, Fn fn) {
  return withFloat(s.dtype,
                   [&](auto tag) { return s.stat == DType::f64 ? fn(tag, Tag<double>()) : fn(tag, Tag<float>()); });
}

} // namespace zc::cpu
