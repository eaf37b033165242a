//===- Profile.h - where a step's time goes, beside what the machine can do ---------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/plan/Machine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zc::train {

/// Raises the rates of kernels in `limits` to what the host's processors and memory give to each of `ranks` ranks of
/// `threads` threads when all compute at once, where that is more. Half a second to two, and 256 MiB each while it
/// lasts. Errors: budget.
Status measureLimits(int threads, int ranks, MachineModel &limits);

/// Of recorded steps: times are means, per training step of one rank.
class Profile {
public:
  /// `events` of one rank; `plan` outlives the profile. Rates of `limits` are 0 where they are not known.
  Profile(const planpb::Plan &plan, const ExecutorOptions &options, const MachineModel &limits,
          const std::vector<TraceEvent> &events);

  /// A table of kernels, the most time first, and the ten steps furthest from the limit. Empty without events.
  std::string text() const;
  /// The same with more steps as a page that needs nothing else, its figures as JSON in it. Errors: io.
  Status writePage(const std::string &path) const;

private:
  /// One step of the plan, or all that one implementation computes.
  struct Entry {
    std::string kernel, by, node;
    std::string operands; ///< their types, of one step
    uint32_t queue = 0, section = 0, index = 0;
    DType type = DType::f32;                             ///< what it computes with
    double executions = 0;                               ///< per training step
    double seconds = 0, flops = 0, bytes = 0, limit = 0; ///< per training step; limit: seconds, 0 if not known
    double lost() const { return limit > 0 ? seconds - limit : 0; }
  };
  Entry entryOf(uint32_t section, uint32_t index) const;
  /// What the step needs at least, by its operations and by its bytes.
  double limitOf(const Entry &entry) const;
  /// Steps of one kernel, implementation and queue together, the most time first.
  std::vector<Entry> kernels() const;
  /// Furthest from their limits; by time where no limits are known.
  std::vector<Entry> worst(size_t count) const;
  std::string json() const;

  const planpb::Plan &plan;
  ExecutorOptions options;
  MachineModel limits;
  std::vector<Entry> entries; ///< of steps that ran
  int64_t firstStep = 0, lastStep = 0;
  double stepSeconds = 0; ///< from the first begin to the last end, per step
};

} // namespace zc::train
