//===- Convert.h - ranges of bf16 to fp32 and back ----------------------------===//
#pragma once

#include "kernels/cpu/Elements.h"

namespace zc::cpu {

void widen(const Bf16 *x, float *y, int64_t n);
/// Round to nearest even; NaN stays NaN.
void narrow(const float *x, Bf16 *y, int64_t n);

} // namespace zc::cpu
