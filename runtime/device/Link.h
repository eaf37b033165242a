//===- Link.h - how fast bytes may move between tiers --------------------------===//
//
// On a machine without a GPU the links between tiers are memory copies. To see overlap as it would be elsewhere, and to
// test it, they can be slowed down: ZERO_LINK="h2d=2GB/s,d2h=2GB/s,nvme_read=1GB/s,nvme_write=1GB/s,comm=4GB/s".
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace zc {

enum class Link : uint8_t { h2d, d2h, nvmeRead, nvmeWrite, comm };
constexpr size_t kNumLinks = 5;
/// As in plans and ZERO_LINK: "h2d", "d2h", "nvme_read", "nvme_write", "comm".
std::string_view nameOf(Link link);

/// Bytes per second of each link of a rank; 0: not slowed down.
using LinkRates = std::array<double, kNumLinks>;
/// ZERO_LINK's text: LINK=SIZE/s, separated by commas. Errors: usage, naming the part.
Result<LinkRates> parseLinkRates(std::string_view text);

/// When the transfers of one link are through, which follow each other: arithmetic on times in ns of one clock, which
/// the caller reads. What a late wake-up lost may be caught up; idle time is not saved.
class LinkSchedule {
public:
  explicit LinkSchedule(double bytesPerSecond = 0) : rate(bytesPerSecond) {}
  /// Until when the link is busy with a transfer whose caller began at `begun` and has moved the bytes itself by
  /// `moved`.
  int64_t busyUntil(int64_t begun, uint64_t bytes, int64_t moved);
  /// The sleeper who was to wake when the link is free again woke then.
  void wokeAt(int64_t time) { late = time - free; }

private:
  double rate;
  int64_t free = 0; ///< when all transfers so far are through
  int64_t late = 0; ///< how much later than that the sleeper woke: not the link's fault
};

/// One link in real time. Used by one thread at a time; sleeps, never spins.
class Throttle {
public:
  /// 0: lets everything pass.
  explicit Throttle(double bytesPerSecond = 0) : slow(bytesPerSecond > 0), schedule(bytesPerSecond) {}
  bool isSlow() const { return slow; }
  /// When a transfer begins; then `finish` returns when the link would have moved its bytes.
  void begin();
  void finish(uint64_t bytes);

private:
  bool slow;
  LinkSchedule schedule;
  int64_t begun = 0; ///< ns of CLOCK_MONOTONIC: this transfer's begin
};

} // namespace zc
