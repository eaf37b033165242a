//===- ScheduleProblem.cpp - check and verify schedules --------------------------------===//

#include "compiler/schedule/ScheduleProblem.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace zc;

llvm::LogicalResult ScheduleProblem::check(std::string &error) const {
  for (size_t i = 0; i < operations.size(); ++i) {
    const ScheduledOperation &operation = operations[i];
    bool sound = operation.queue < numQueues && operation.seconds >= 0 &&
                 std::all_of(operation.after.begin(), operation.after.end(), [&](size_t p) { return p < i; });
    if (!sound) {
      error = "operation " + std::to_string(i) + " '" + operation.name.str() + "' on queue " +
              std::to_string(operation.queue) + " of " + std::to_string(numQueues) +
              " depends on a later one or takes negative time";
      return llvm::failure();
    }
  }
  return llvm::success();
}

llvm::LogicalResult ScheduleProblem::verify(std::string &error) const {
  // Sums of doubles: what ends "at" a start may be off by rounding.
  const double slack = 1e-9 * (1 + makespan());
  auto endOf = [&](size_t i) { return starts[i] + operations[i].seconds; };
  auto violated = [&](size_t early, size_t late) {
    error = "'" + operations[late].name.str() + "' starts at " + std::to_string(starts[late]) + " s before '" +
            operations[early].name.str() + "' ends at " + std::to_string(endOf(early)) + " s";
    return llvm::failure();
  };
  for (size_t i = 0; i < operations.size(); ++i)
    for (size_t p : operations[i].after)
      if (endOf(p) > starts[i] + slack)
        return violated(p, i);
  std::vector<size_t> order(operations.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // What takes no time may stand before what starts at the same moment, and not after it.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(starts[a], endOf(a)) < std::make_pair(starts[b], endOf(b));
  });
  std::vector<size_t> last(numQueues, operations.size());
  for (size_t i : order) {
    size_t &previous = last[operations[i].queue];
    if (previous != operations.size() && endOf(previous) > starts[i] + slack)
      return violated(previous, i);
    previous = i;
  }
  return llvm::success();
}

double ScheduleProblem::makespan() const {
  double end = 0;
  for (size_t i = 0; i < starts.size(); ++i)
    end = std::max(end, starts[i] + operations[i].seconds);
  return end;
}
