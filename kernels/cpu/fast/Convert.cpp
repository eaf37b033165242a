#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Convert.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

template <typename From, typename To> void convertTyped(const void *from, void *to, int64_t n) {
  const From *x = static_cast<const From *>(from);
  To *y = static_cast<To *>(to);
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR { storePart(loadPart(x + i, c), y + i, c); });
}
void convertRange(DType from, const void *x, DType to, void *y, int64_t n) {
  withFast(from, [&](auto source) {
    withFast(to, [&](auto target) { convertTyped<TypeOf<decltype(source)>, TypeOf<decltype(target)>>(x, y, n); });
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Convert.h"

namespace zc::cpu {
HWY_EXPORT(convertRange);

void convertFast(DType from, const void *x, DType to, void *y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(convertRange)(from, x, to, y, n);
}

} // namespace zc::cpu
#endif
