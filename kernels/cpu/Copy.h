//===- Copy.h - large copies between arenas -------------------------------------===//
#pragma once

#include <cstdint>
#include <cstring>

namespace zc::cpu {

/// Copies bytes that do not overlap, on up to `threads` threads, none for less than a megabyte. From a megabyte on they
/// go past the caches, so that memory is not read before it is written.
void copy(void *to, const void *from, uint64_t bytes, int threads);

/// memcpy, of what is mostly an element or a few: for these without a call.
inline void copyRow(void *to, const void *from, int64_t bytes) {
  switch (bytes) {
  case 1:
    std::memcpy(to, from, 1);
    return;
  case 2:
    std::memcpy(to, from, 2);
    return;
  case 4:
    std::memcpy(to, from, 4);
    return;
  case 8:
    std::memcpy(to, from, 8);
    return;
  case 16:
    std::memcpy(to, from, 16);
    return;
  default:
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

} // namespace zc::cpu
