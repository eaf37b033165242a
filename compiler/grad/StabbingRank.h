//===- StabbingRank.h - the cheapest of what is alive at a position -------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace zc {

/// Items with a cost and an interval of positions; asks for the cheapest whose interval has a position. A segment tree
/// of heaps: an item is in the O(log positions) nodes that its interval is made of. What has changed since is dropped
/// from a heap when it comes to the top. Of equal costs the one that was set first comes first.
class StabbingRank {
public:
  struct Entry {
    double cost = 0;
    size_t order = 0; ///< of being set
    size_t item = 0;
    size_t version = 0;

    bool operator>(const Entry &other) const { return cost != other.cost ? cost > other.cost : order > other.order; }
  };

  explicit StabbingRank(size_t positions = 1, size_t items = 0) : states(items) {
    while (leaves < positions)
      leaves *= 2;
    nodes.resize(2 * leaves);
  }

  void set(size_t item, double cost, size_t begin, size_t end) {
    State &state = states[item];
    state = {cost, numSet++, begin, state.version + 1, true};
    insert(item, end);
  }
  void erase(size_t item) { states[item].isThere = false; }
  /// Ends the interval of an item earlier than before; nothing for what is not there.
  void end(size_t item, size_t end) {
    if (!states[item].isThere)
      return;
    ++states[item].version;
    insert(item, end);
  }

  std::optional<Entry> lowestAt(size_t position) {
    std::optional<Entry> lowest;
    for (size_t node = leaves + position; node >= 1; node /= 2) {
      Heap &heap = nodes[node];
      while (!heap.empty() && !isCurrent(heap.top()))
        heap.pop();
      if (!heap.empty() && (!lowest || *lowest > heap.top()))
        lowest = heap.top();
    }
    return lowest;
  }

private:
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;
  struct State {
    double cost = 0;
    size_t order = 0, begin = 0, version = 0;
    bool isThere = false;
  };

  bool isCurrent(const Entry &entry) const {
    const State &state = states[entry.item];
    return state.isThere && state.version == entry.version;
  }

  void insert(size_t item, size_t end) {
    const State &state = states[item];
    const Entry entry{state.cost, state.order, item, state.version};
    for (size_t low = leaves + state.begin, high = leaves + end; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1)
        nodes[low++].push(entry);
      if (high % 2 == 1)
        nodes[--high].push(entry);
    }
  }

  size_t leaves = 1, numSet = 0;
  std::vector<Heap> nodes; ///< the root is 1
  std::vector<State> states;
};

} // namespace zc
