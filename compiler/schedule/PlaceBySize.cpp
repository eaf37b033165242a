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
struct Placed {
  int64_t offset, end, first, last;
};

/// Placed buffers in buckets of time, so that a buffer meets only those of its own stretch of the plan.
class Timeline {
public:
  Timeline(int64_t begin, int64_t end) : begin(begin), width(std::max<int64_t>(1, (end - begin) / kBuckets + 1)) {
    buckets.resize(kBuckets + 1);
  }
  /// Those that live together with [first, last], by offset.
  std::vector<Placed> overlapping(int64_t first, int64_t last) const {
    std::vector<Placed> found;
    for (int64_t b = index(first); b <= index(last); ++b)
      for (const Placed &placed : buckets[b])
        if (placed.first <= last && placed.last >= first && std::max(index(placed.first), index(first)) == b)
          found.push_back(placed);
    std::sort(found.begin(), found.end(), [](const Placed &a, const Placed &b) { return a.offset < b.offset; });
    return found;
  }
  void add(const Placed &placed) {
    for (int64_t b = index(placed.first); b <= index(placed.last); ++b)
      buckets[b].push_back(placed);
  }

private:
  static constexpr int64_t kBuckets = 512;
  int64_t index(int64_t position) const { return (position - begin) / width; }
  int64_t begin, width;
  std::vector<std::vector<Placed>> buckets;
};
} // namespace

/// Smallest gap between `neighbours` that holds `bytes`; above all of them if none does.
static int64_t bestFit(const std::vector<Placed> &neighbours, int64_t bytes) {
  int64_t end = 0, best = -1, bestGap = std::numeric_limits<int64_t>::max();
  for (const Placed &placed : neighbours) {
    int64_t gap = placed.offset - end;
    if (gap >= bytes && gap < bestGap) {
      best = end;
      bestGap = gap;
    }
    end = std::max(end, placed.end);
  }
  return best >= 0 ? best : end;
}

void zc::placeBySize(MemoryProblem &problem) {
  const auto &requests = problem.requests;
  problem.offsets.assign(requests.size(), 0);
  if (requests.empty())
    return;
  int64_t begin = std::numeric_limits<int64_t>::max(), end = std::numeric_limits<int64_t>::min();
  for (const MemoryRequest &request : requests) {
    begin = std::min(begin, request.first);
    end = std::max(end, request.last);
  }
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (requests[a].bytes != requests[b].bytes)
      return requests[a].bytes > requests[b].bytes;
    return requests[a].last - requests[a].first > requests[b].last - requests[b].first;
  });
  Timeline timeline(begin, end);
  for (size_t index : order) {
    const MemoryRequest &request = requests[index];
    int64_t bytes = problem.aligned(request.bytes);
    if (bytes == 0)
      continue;
    int64_t offset = bestFit(timeline.overlapping(request.first, request.last), bytes);
    problem.offsets[index] = offset;
    timeline.add({offset, offset + bytes, request.first, request.last});
  }
}
