//===- Measure.h - how fast this machine is ------------------------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/comm/RankGroup.h"
#include "runtime/plan/Machine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zc {

struct MeasureOptions {
  std::string folder;                       ///< of the NVMe tier; empty: its rates are not measured
  int threads = 1;                          ///< of a rank's kernels
  uint64_t nvmeBytes = uint64_t(512) << 20; ///< written and read in each round
  int rounds = 3;                           ///< the median is taken
  /// A job of which this process runs one rank; its links are measured too. All its ranks call with equal options, and
  /// rank 0 gets the figures.
  RankGroup *ranks = nullptr;
};

/// Takes about ten seconds. Rates that are not measured are 0: those of the NVMe tier without a folder, that between
/// nodes unless `ranks` are on several machines. Errors: those of the NVMe tier, of memory, and of collectives.
/// `notes`: what the user should know.
Result<MachineModel> measureMachine(const MeasureOptions &options, std::vector<std::string> &notes);

/// Only the rates of kernels: of products of fp32 and of 16 bits, and of memory, with so many threads. Half a second,
/// 256 MiB. Errors: budget.
Status measureKernels(int threads, int rounds, MachineModel &figures);

/// One JSON object of what was measured, under the names of a machine file.
std::string toJson(const MachineModel &figures);

} // namespace zc
