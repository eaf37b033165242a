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

/// What a sum's members add from what is staged: processors, or GPUs.
enum class Adders : uint8_t { hosts, devices };

/// Pieces of a sum on their way at a time where hosts add, and the bytes of all of them together: large enough that a
/// link is never idle while the processor adds, small enough to stay in a cache.
inline constexpr uint64_t kStagedPieces = 3, kStagedBytes = uint64_t(6) << 20;
inline constexpr uint64_t kMinPiece = 32 << 10, kMaxPiece = 1 << 20;
/// Where devices add, all that is staged is one piece: each is a call of the host's, and a GPU adds from its memory.
inline constexpr uint64_t kDeviceStagedBytes = uint64_t(64) << 20;
/// Up to so many bytes an all-reduce is bound by the round trips: everybody gets all inputs.
inline constexpr uint64_t kSmallSum = 8192;

/// Elements of `size` bytes in a piece of a member's part, of `part` elements, summed by hosts over `members`.
inline uint64_t stagedElements(uint64_t members, uint64_t part, uint64_t size) {
  uint64_t bytes = std::clamp(kStagedBytes / (kStagedPieces * members), kMinPiece, kMaxPiece);
  return std::max<uint64_t>(1, std::min(bytes / size, part));
}

/// Of a reduce-scatter; `part` elements of `size` bytes each. What devices are given is enough for hosts.
inline uint64_t reduceScatterStaging(uint64_t members, uint64_t part, uint64_t size, Adders adders = Adders::hosts) {
  if (members <= 1)
    return 0;
  const uint64_t hosts = kStagedPieces * members * stagedElements(members, part, size) * size;
  return adders == Adders::hosts
             ? hosts
             : std::max(hosts, members * std::min(kDeviceStagedBytes / members / size, part) * size);
}

/// Of an all-reduce of `elements` elements of `size` bytes.
inline uint64_t allReduceStaging(uint64_t members, uint64_t elements, uint64_t size, Adders adders = Adders::hosts) {
  if (members <= 1)
    return 0;
  return elements * size <= kSmallSum ? members * elements * size
                                      : reduceScatterStaging(members, (elements + members - 1) / members, size, adders);
}

} // namespace zc
