//===- Touches.h - who used which elements of a buffer ----------------------------===//
//
// A bucket has as many parts as parameters, each used by operations of its own. Whom an operation meets is found by
// where the others begin, those of about one length together: who meets a touch begins before its end, and not further
// before its begin than it is long.
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
  /// How many were looked at for that.
  size_t forEachThatMeets(const Touch<User> &touch, llvm::function_ref<void(const Touch<User> &)> visit) const {
    size_t visited = 0;
    for (const auto &[bits, touches] : sides[touch.own])
      for (auto it = touches.upper_bound(touch.begin - (int64_t(1) << bits));
           it != touches.end() && it->first < touch.end; ++it, ++visited)
        if (it->second.meets(touch))
          visit(it->second);
    for (const auto &[bits, touches] : sides[!touch.own])
      for (auto it = touches.begin(); it != touches.end(); ++it, ++visited)
        visit(it->second);
    return visited;
  }

  void eraseCovered(const Touch<User> &touch) {
    for (auto &[bits, touches] : sides[touch.own])
      for (auto it = touches.lower_bound(touch.begin); it != touches.end() && it->first <= touch.end;)
        it = touch.covers(it->second) ? touches.erase(it) : std::next(it);
  }

  void add(const Touch<User> &touch) {
    const unsigned bits = llvm::Log2_64_Ceil(static_cast<uint64_t>(std::max<int64_t>(touch.end - touch.begin, 1)));
    sides[touch.own][bits].emplace(touch.begin, touch);
  }

private:
  /// Of at most two to this many elements, by begin.
  using OfLength = std::map<unsigned, std::multimap<int64_t, Touch<User>>>;
  std::array<OfLength, 2> sides; ///< counted from the begin, or from this rank's shard
};

} // namespace zc
