//===- Touches.h - who used which elements of a buffer ----------------------------===//
//
// A bucket has as many parts as parameters, each used by operations of its own. Whom an operation conflicts with is
// found by where the others begin, those of about one length together: who meets a touch begins before its end, and not
// further before its begin than it is long. Readers, of whom a whole bucket has many, are not looked at by readers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>

namespace zc {

/// Use of the elements [begin, end) of a buffer or storage by a `User`.
template <typename User> struct Touch {
  User by = {};
  bool writes = false;
  bool own = false; ///< elements count from this rank's shard, which may lie anywhere in the whole
  int64_t begin = 0, end = 0;

  bool meets(const Touch &other) const { return own != other.own || (begin < other.end && other.begin < end); }
  bool covers(const Touch &other) const { return own == other.own && begin <= other.begin && other.end <= end; }
};

/// Touches of one object.
template <typename User> class Touches {
public:
  /// Those that meet `touch` where one of both writes. Returns how many were looked at for that.
  size_t forEachConflict(const Touch<User> &touch, llvm::function_ref<void(const Touch<User> &)> visit) const {
    size_t visited = 0;
    auto look = [&](const Touch<User> &other) {
      ++visited;
      if (other.meets(touch))
        visit(other);
    };
    for (bool writes : {true, false}) {
      if (!writes && !touch.writes)
        continue;
      for (const auto &[bits, touches] : sides[touch.own][writes])
        for (auto it = touches.upper_bound(touch.begin - (int64_t(1) << bits));
             it != touches.end() && it->first < touch.end; ++it)
          look(it->second);
      for (const auto &[bits, touches] : sides[!touch.own][writes])
        for (auto it = touches.begin(); it != touches.end(); ++it)
          look(it->second);
    }
    return visited;
  }

  void eraseCovered(const Touch<User> &touch) {
    for (OfLength &side : sides[touch.own])
      for (auto &[bits, touches] : side)
        for (auto it = touches.lower_bound(touch.begin); it != touches.end() && it->first <= touch.end;)
          it = touch.covers(it->second) ? touches.erase(it) : std::next(it);
  }

  void add(const Touch<User> &touch) {
    const unsigned bits = llvm::Log2_64_Ceil(static_cast<uint64_t>(std::max<int64_t>(touch.end - touch.begin, 1)));
    sides[touch.own][touch.writes][bits].emplace(touch.begin, touch);
  }

private:
  /// Of more than 2^(key - 1) and at most 2^key elements, by begin.
  using OfLength = std::map<unsigned, std::multimap<int64_t, Touch<User>>>;
  /// Counted from the begin, or from this rank's shard; readers, then writers.
  std::array<std::array<OfLength, 2>, 2> sides;
};

} // namespace zc
