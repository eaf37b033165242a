// Copies between arenas, in parts of a megabyte or more.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Copy.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void streamBytes(char *to, const char *from, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  int64_t at = std::min((width - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % width)) % width, bytes);
  std::memcpy(to, from, static_cast<size_t>(at));
  for (; at + width <= bytes; at += width)
    hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t *>(from + at)), d, reinterpret_cast<uint8_t *>(to + at));
  std::memcpy(to + at, from + at, static_cast<size_t>(bytes - at));
  hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/Copy.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(streamBytes);

void copy(void *to, const void *from, uint64_t bytes, int threads) {
  constexpr int64_t kPart = int64_t(1) << 20, kPage = 4096;
  auto size = static_cast<int64_t>(bytes);
  if (size < kPart || !hasVectors()) {
    std::memcpy(to, from, bytes);
    return;
  }
  parallelRanges(static_cast<int>(std::clamp<int64_t>(size / kPart, 1, threads)), size, kPage,
                 [&](int64_t begin, int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(streamBytes)
                   (static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin, end - begin);
                 });
}

} // namespace zc::cpu
#endif
