//===- MemoryProblem.cpp - check and verify memory plans ------------------------------===//

#include "compiler/schedule/MemoryProblem.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace zc;

int64_t MemoryProblem::aligned(int64_t bytes) const {
  return static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(bytes), static_cast<uint64_t>(alignment)));
}

static std::string describeRequest(const MemoryRequest &request) {
  return "'" + request.name + "' (" + std::to_string(request.bytes) + " bytes, live " + std::to_string(request.first) +
         ".." + std::to_string(request.last) + ")";
}

llvm::LogicalResult MemoryProblem::check(std::string &error) const {
  for (const MemoryRequest &request : requests)
    if (request.bytes < 0 || request.first > request.last) {
      error = describeRequest(request) + " is no buffer";
      return llvm::failure();
    }
  return llvm::success();
}

namespace {
/// Requests entering and leaving a sweep over positions.
struct Event {
  int64_t position;
  bool enters;
  size_t index;
  bool operator<(const Event &other) const {
    // A buffer whose last use is where another begins lives together with it: enter before leave.
    return std::make_tuple(position, !enters, index) < std::make_tuple(other.position, !other.enters, other.index);
  }
};
} // namespace

static std::vector<Event> eventsOf(const std::vector<MemoryRequest> &requests) {
  std::vector<Event> events;
  for (size_t i = 0; i < requests.size(); ++i)
    if (requests[i].bytes > 0) {
      events.push_back({requests[i].first, true, i});
      events.push_back({requests[i].last, false, i});
    }
  std::sort(events.begin(), events.end());
  return events;
}

llvm::LogicalResult MemoryProblem::verify(std::string &error) const {
  if (offsets.size() != requests.size()) {
    error = std::to_string(offsets.size()) + " offsets for " + std::to_string(requests.size()) + " buffers";
    return llvm::failure();
  }
  std::map<int64_t, size_t> live; // by offset, disjoint
  for (const Event &event : eventsOf(requests)) {
    int64_t offset = offsets[event.index];
    if (!event.enters) {
      live.erase(offset);
      continue;
    }
    if (offset < 0 || offset % alignment != 0) {
      error = describeRequest(requests[event.index]) + " is placed at " + std::to_string(offset) +
              ", not a multiple of " + std::to_string(alignment);
      return llvm::failure();
    }
    auto above = live.lower_bound(offset);
    const size_t none = requests.size();
    size_t clash = above != live.end() && above->first < offset + requests[event.index].bytes ? above->second : none;
    if (above != live.begin()) {
      auto below = std::prev(above);
      if (below->first + requests[below->second].bytes > offset)
        clash = below->second;
    }
    if (clash != none) {
      error = describeRequest(requests[event.index]) + " at " + std::to_string(offset) + " meets " +
              describeRequest(requests[clash]) + " at " + std::to_string(offsets[clash]);
      return llvm::failure();
    }
    live[offset] = event.index;
  }
  return llvm::success();
}

int64_t MemoryProblem::peak() const {
  int64_t peak = 0;
  for (size_t i = 0; i < requests.size(); ++i)
    peak = std::max(peak, offsets[i] + aligned(requests[i].bytes));
  return peak;
}

int64_t MemoryProblem::lowerBound(int64_t *position) const {
  int64_t live = 0, most = 0;
  for (const Event &event : eventsOf(requests)) {
    live += (event.enters ? 1 : -1) * aligned(requests[event.index].bytes);
    if (live > most) {
      most = live;
      if (position)
        *position = event.position;
    }
  }
  return most;
}
