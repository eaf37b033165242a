//===- Staging.h - bytes that sums over ranks pass through --------------------------===//
//
// Where members are processes, a member has what the others send it beside its own input: all of a small sum, and
// pieces of a large one, a few on their way at a time. The caller gives that memory, so that a plan knows of it. Where
// members are threads they read each other's inputs and need none; a plan is for both.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <cstdint>

namespace zc {

/// `bytes` behind `base`.
inline char *at(void *base, uint64_t bytes) { return static_cast<char *>(base) + bytes; }
inline const char *at(const void *base, uint64_t bytes) { return static_cast<const char *>(base) + bytes; }

/// Pieces of a sum on their way at a time, and the bytes of all of them together: large enough that a link is never
/// idle while the processor adds, small enough to stay in a cache.
inline constexpr uint64_t kStagedPieces = 3, kStagedBytes = uint64_t(6) << 20;
inline constexpr uint64_t kMinPiece = 32 << 10, kMaxPiece = 1 << 20;
/// Up to so many bytes an all-reduce is bound by the round trips: everybody gets all inputs.
inline constexpr uint64_t kSmallSum = 8192;

/// Elements of `size` bytes in a piece of a member's part, of `part` elements, summed over `members`.
inline uint64_t stagedElements(uint64_t members, uint64_t part, uint64_t size) {
  uint64_t bytes = std::clamp(kStagedBytes / (kStagedPieces * members), kMinPiece, kMaxPiece);
  return std::max<uint64_t>(1, std::min(bytes / size, part));
}

/// Of a reduce-scatter; `part` elements of `size` bytes each.
inline uint64_t reduceScatterStaging(uint64_t members, uint64_t part, uint64_t size) {
  return members <= 1 ? 0 : kStagedPieces * members * stagedElements(members, part, size) * size;
}

/// Of an all-reduce of `elements` elements of `size` bytes.
inline uint64_t allReduceStaging(uint64_t members, uint64_t elements, uint64_t size) {
  if (members <= 1)
    return 0;
  return elements * size <= kSmallSum ? members * elements * size
                                      : reduceScatterStaging(members, (elements + members - 1) / members, size);
}

} // namespace zc
