#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Convert.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

void widenRange(const Bf16 *x, float *y, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR { storePart(loadPart(x + i, c), y + i, c); });
}
void narrowRange(const float *x, Bf16 *y, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR { storePart(loadPart(x + i, c), y + i, c); });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Convert.h"

namespace zc::cpu {
HWY_EXPORT(widenRange);
HWY_EXPORT(narrowRange);

void widen(const Bf16 *x, float *y, int64_t n) { HWY_DYNAMIC_DISPATCH(widenRange)(x, y, n); }
void narrow(const float *x, Bf16 *y, int64_t n) { HWY_DYNAMIC_DISPATCH(narrowRange)(x, y, n); }

} // namespace zc::cpu
#endif
