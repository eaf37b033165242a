//===- Measure.h - how fast this machine is ------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zc {

/// Rates of one rank, as the compiler's cost model (compiler/schedule/CostModel.h, MachineModel) takes them.
struct MachineFigures {
  double flopsPerSecond = 0;     ///< fp32 matrix product
  double memoryBandwidth = 0;    ///< bytes per second, read and written, of an update in place
  double commBandwidth = 0;      ///< bytes per second sent, between two ranks that are threads
  double h2dBandwidth = 0;       ///< bytes per second from host to device arena
  double d2hBandwidth = 0;       ///< and back
  double nvmeReadBandwidth = 0;  ///< bytes per second through the NVMe tier, checksums included
  double nvmeWriteBandwidth = 0; ///< the same
  double stepOverhead = 0;       ///< seconds until a step of another queue that waits for one begins
};

struct MeasureOptions {
  std::string folder;                       ///< of the NVMe tier
  int threads = 1;                          ///< of a rank's kernels
  uint64_t nvmeBytes = uint64_t(512) << 20; ///< written and read in each round
  int rounds = 3;                           ///< the median is taken
};

/// Takes about ten seconds. Errors: those of the NVMe tier, and of memory. `notes`: what the user should know.
Result<MachineFigures> measureMachine(const MeasureOptions &options, std::vector<std::string> &notes);

/// One JSON object: flops_per_second, memory_bandwidth, comm_bandwidth, h2d_bandwidth, d2h_bandwidth,
/// nvme_read_bandwidth, nvme_write_bandwidth, step_overhead.
std::string toJson(const MachineFigures &figures);

} // namespace zc
