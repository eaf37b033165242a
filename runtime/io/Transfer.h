//===- Transfer.h - one call of the system, as failpoints want it ---------------===//
#pragma once

#include "base/Failpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <sys/types.h>

namespace zc::io {

constexpr int64_t kChunk = 1 << 20;
/// What one call of the system may be asked to move: each has its own deadline.
constexpr int64_t kAtOnce = 64 << 20;
/// What the addresses of transfers past the page cache are multiples of, and how much is worth one.
constexpr int64_t kPage = 4096, kDirectFrom = 256 << 10;
constexpr const char *kToDisk = "bringing to disk";

/// What a failpoint wants this place to fail with; 0: nothing.
inline int injected(const char *site) {
  std::optional<FaultAction> fault = failpoint(site);
  return fault && fault->kind == FaultAction::Kind::error ? fault->errnum : 0;
}

/// pread or pwrite of at most kAtOnce bytes, with what the failpoint `site` makes of it: an error, fewer bytes, a bit
/// that is another.
template <typename Call> ssize_t moved(const char *site, int64_t count, Call call) {
  std::optional<FaultAction> fault = failpoint(site);
  if (fault && fault->kind == FaultAction::Kind::error) {
    errno = fault->errnum;
    return -1;
  }
  bool isShort = fault && fault->kind == FaultAction::Kind::shorten;
  count = std::min(count, kAtOnce);
  return call(size_t(isShort ? (count + 1) / 2 : count), fault && fault->kind == FaultAction::Kind::flip);
}

} // namespace zc::io
