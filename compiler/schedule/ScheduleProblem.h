//===- ScheduleProblem.h - when each operation runs on its queue ---------------------===//
//
// Operations with a queue, a duration and dependences; the solution is a start time for each. Apart from the algorithms
// that solve it, after circt's Scheduling/Problems.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zc {

struct ScheduledOperation {
  llvm::StringRef name; ///< for messages; whose it is must outlive the problem
  unsigned queue = 0;
  double seconds = 0;
  llvm::SmallVector<size_t, 2> after; ///< operations that must have ended
  bool isUrgent = false;              ///< of those that are ready it goes before the others
};

class ScheduleProblem {
public:
  std::vector<ScheduledOperation> operations;
  unsigned numQueues = 1;
  std::vector<double> starts; ///< the solution, seconds

  /// Is the input sound: dependences exist and point backward, durations are not negative?
  llvm::LogicalResult check(std::string &error) const;
  /// Is the solution legal: dependences hold and a queue runs one operation at a time?
  llvm::LogicalResult verify(std::string &error) const;
  /// End of the last operation, seconds.
  double makespan() const;
};

/// List scheduling: each queue takes, of the operations whose dependences have ended earliest, the one that stands
/// first in the problem, urgent ones before others. `inOrderQueue` keeps the problem's order (the compute queue: its
/// order bounds memory).
void scheduleAsList(ScheduleProblem &problem, unsigned inOrderQueue);

} // namespace zc
