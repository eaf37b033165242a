//===- Convert.h - ranges of bf16 and f16 to fp32 and back --------------------===//
#pragma once

#include "kernels/formula/Elements.h"

namespace zc::cpu {
using namespace formula;

/// `n` elements from one fast type to another; rounds to nearest even, NaN stays NaN.
void convertFast(DType from, const void *x, DType to, void *y, int64_t n);

/// The same with a side that is fp32. T: float, Bf16 or F16.
template <typename T> void widen(const T *x, float *y, int64_t n) { convertFast(dtypeOf<T>, x, DType::f32, y, n); }
template <typename T> void narrow(const float *x, T *y, int64_t n) { convertFast(DType::f32, x, dtypeOf<T>, y, n); }

} // namespace zc::cpu
