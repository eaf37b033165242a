//===- Copy.h - large copies between arenas -------------------------------------===//
#pragma once

#include <cstdint>

namespace zc::cpu {

/// Copies bytes that do not overlap, on up to `threads` threads, none for less than a megabyte. From a megabyte on they
/// go past the caches, so that memory is not read before it is written.
void copy(void *to, const void *from, uint64_t bytes, int threads);

} // namespace zc::cpu
