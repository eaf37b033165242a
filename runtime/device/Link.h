//===- Link.h - how fast bytes may move between tiers --------------------------===//
//
// On a machine without a GPU the links between tiers are memory copies. To see overlap as it would be elsewhere, and to
// test it, they can be slowed down: ZERO_LINK="h2d=2GB/s,d2h=2GB/s,nvme_read=1GB/s,nvme_write=1GB/s,comm=4GB/s".
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

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

/// One link: its transfers follow each other. Used by one thread at a time; sleeps, never spins.
class Throttle {
public:
  /// 0: lets everything pass.
  explicit Throttle(double bytesPerSecond = 0) : rate(bytesPerSecond) {}
  bool isSlow() const { return rate > 0; }
  /// When a transfer begins; then `finish` returns when the link would have moved its bytes.
  void begin();
  void finish(uint64_t bytes);

private:
  double rate;
  int64_t begun = 0; ///< ns of CLOCK_MONOTONIC: this transfer's begin
  int64_t free = 0;  ///< when all transfers so far are through
  int64_t late = 0;  ///< how much later than that the sleeper woke: not the link's fault
};

} // namespace zc
