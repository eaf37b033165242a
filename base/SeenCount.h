//===- SeenCount.h - a count, and since when it has been that ------------------------------------===//
//
// Whether somebody gets on, a thread that looks now and then can tell only by what they count.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace zc {

/// As one sees it who looks, at times of a clock of theirs, ns.
class SeenCount {
public:
  SeenCount() = default; ///< 0, at time 0
  SeenCount(uint64_t count, int64_t now) : last(count), changed(now) {}

  /// Is it another at `now` than when last looked at?
  bool look(uint64_t count, int64_t now) {
    if (count == last)
      return false;
    last = count;
    changed = now;
    return true;
  }
  uint64_t count() const { return last; }
  /// When it was first seen to be this.
  int64_t since() const { return changed; }

private:
  uint64_t last = 0;
  int64_t changed = 0;
};

} // namespace zc
