//===- PlaceBySize.cpp - greedy by size, best fit ---------------------------------------===//
//
// The heuristic of "Efficient Memory Management for Deep Neural Net Inference" (arXiv 2001.03288, greedy by size):
// large buffers decide the peak, so they choose first.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/MemoryProblem.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace zc;

namespace {

/// Bytes [begin, end).
struct Span {
  int64_t begin, end;
};

/// Disjoint spans in order that do not touch: what many buffers beside each other take is one of them.
class Occupied {
public:
  void add(Span span) {
    auto first = std::lower_bound(spans.begin(), spans.end(), span.begin,
                                  [](const Span &have, int64_t begin) { return have.end < begin; });
    auto last = first;
    for (; last != spans.end() && last->begin <= span.end; ++last)
      span = {std::min(span.begin, last->begin), std::max(span.end, last->end)};
    if (first == last) {
      spans.insert(first, span);
      return;
    }
    *first = span;
    spans.erase(first + 1, last);
  }
  const std::vector<Span> &all() const { return spans; }

private:
  std::vector<Span> spans;
};

/// The bytes that placed buffers take, over time: a segment tree over the positions at which buffers begin, since two
/// that live together live at the later one's begin. A buffer is `whole` in the few nodes that its life is made of, and
/// in `part` of those and of all above them.
class Timeline {
public:
  explicit Timeline(const std::vector<MemoryRequest> &requests) {
    for (const MemoryRequest &request : requests)
      begins.push_back(request.first);
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    while (leaves < begins.size())
      leaves *= 2;
    nodes.resize(2 * leaves);
  }

  /// What is taken at any of the positions [first, last], in order of begins; spans may overlap.
  const std::vector<Span> &during(int64_t first, int64_t last) {
    found.clear();
    visit(first, last, [this](const Node &node, bool covers) {
      const std::vector<Span> &spans = (covers ? node.part : node.whole).all();
      found.insert(found.end(), spans.begin(), spans.end());
    });
    std::sort(found.begin(), found.end(), [](const Span &a, const Span &b) { return a.begin < b.begin; });
    return found;
  }

  void add(int64_t first, int64_t last, Span span) {
    visit(first, last, [span](Node &node, bool covers) {
      node.part.add(span);
      if (covers)
        node.whole.add(span);
    });
  }

private:
  struct Node {
    Occupied whole, part;
  };

  /// Calls `see` for the nodes that [first, last] is made of, with true, and for those above them, with false.
  template <typename See> void visit(int64_t first, int64_t last, See see) {
    auto index = [this](auto place) { return static_cast<size_t>(place - begins.begin()); };
    size_t begin = index(std::lower_bound(begins.begin(), begins.end(), first)),
           end = index(std::upper_bound(begins.begin(), begins.end(), last));
    visit(1, 0, leaves, begin, end, see);
  }
  template <typename See> void visit(size_t node, size_t from, size_t to, size_t begin, size_t end, See &see) {
    if (end <= from || to <= begin)
      return;
    const bool covers = begin <= from && to <= end;
    see(nodes[node], covers);
    if (covers)
      return;
    size_t middle = (from + to) / 2;
    visit(2 * node, from, middle, begin, end, see);
    visit(2 * node + 1, middle, to, begin, end, see);
  }

  std::vector<int64_t> begins;
  size_t leaves = 1;
  std::vector<Node> nodes; ///< the root is 1
  std::vector<Span> found;
};

} // namespace

/// Smallest gap between `neighbours` that holds `bytes`; above all of them if none does.
static int64_t bestFit(const std::vector<Span> &neighbours, int64_t bytes) {
  int64_t end = 0, best = -1, bestGap = std::numeric_limits<int64_t>::max();
  for (const Span &span : neighbours) {
    int64_t gap = span.begin - end;
    if (gap >= bytes && gap < bestGap) {
      best = end;
      bestGap = gap;
    }
    end = std::max(end, span.end);
  }
  return best >= 0 ? best : end;
}

void zc::placeBySize(MemoryProblem &problem) {
  const auto &requests = problem.requests;
  problem.offsets.assign(requests.size(), 0);
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (requests[a].bytes != requests[b].bytes)
      return requests[a].bytes > requests[b].bytes;
    return requests[a].last - requests[a].first > requests[b].last - requests[b].first;
  });
  Timeline timeline(requests);
  for (size_t index : order) {
    const MemoryRequest &request = requests[index];
    int64_t bytes = problem.aligned(request.bytes);
    if (bytes == 0)
      continue;
    int64_t offset = bestFit(timeline.during(request.first, request.last), bytes);
    problem.offsets[index] = offset;
    timeline.add(request.first, request.last, {offset, offset + bytes});
  }
}
