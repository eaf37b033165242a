//===- LiveBytes.h - bytes that live at each position --------------------------------===//
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zc {

/// A number for each of `size` positions; changing a range of them and asking for the most of one take O(log size).
class LiveBytes {
public:
  explicit LiveBytes(size_t size = 1) {
    while (leaves < size)
      leaves *= 2;
    nodes.resize(2 * leaves);
  }

  /// Adds `bytes` at [begin, end).
  void add(size_t begin, size_t end, int64_t bytes) {
    if (begin < end)
      add(1, 0, leaves, begin, end, bytes);
  }
  int64_t most() const { return nodes[1].most; }
  /// At [begin, end), which is not empty.
  int64_t most(size_t begin, size_t end) const { return most(1, 0, leaves, begin, end); }
  /// The first position that has `bytes`, the most of all.
  size_t firstOf(int64_t bytes) const {
    size_t node = 1;
    while (node < leaves) {
      bytes -= nodes[node].added;
      node = 2 * node + (nodes[2 * node].most == bytes ? 0 : 1);
    }
    return node - leaves;
  }

private:
  /// `added` is of all positions below and not in their numbers; `most` has it.
  struct Node {
    int64_t added = 0, most = 0;
  };

  void add(size_t node, size_t from, size_t to, size_t begin, size_t end, int64_t bytes) {
    if (end <= from || to <= begin)
      return;
    if (begin <= from && to <= end) {
      nodes[node].added += bytes;
      nodes[node].most += bytes;
      return;
    }
    size_t middle = (from + to) / 2;
    add(2 * node, from, middle, begin, end, bytes);
    add(2 * node + 1, middle, to, begin, end, bytes);
    nodes[node].most = nodes[node].added + std::max(nodes[2 * node].most, nodes[2 * node + 1].most);
  }

  int64_t most(size_t node, size_t from, size_t to, size_t begin, size_t end) const {
    if (end <= from || to <= begin)
      return INT64_MIN / 2;
    if (begin <= from && to <= end)
      return nodes[node].most;
    size_t middle = (from + to) / 2;
    return nodes[node].added +
           std::max(most(2 * node, from, middle, begin, end), most(2 * node + 1, middle, to, begin, end));
  }

  size_t leaves = 1;
  std::vector<Node> nodes; ///< the root is 1
};

} // namespace zc
