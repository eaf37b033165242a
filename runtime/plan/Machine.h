//===- Machine.h - rates of a machine -------------------------------------------===//
#pragma once

namespace zc {

/// Rates of one rank: `zero-run bench-io` measures them, the compiler's cost model takes them. The defaults are a
/// server core's order of magnitude; a machine file replaces them.
struct MachineModel {
  double flopsPerSecond = 150e9;   ///< fp32 matrix product
  double memoryBandwidth = 20e9;   ///< bytes per second, read and written, of an update in place
  double commBandwidth = 4e9;      ///< bytes per second sent, between ranks of a node
  double nodeBandwidth = 1.25e9;   ///< bytes per second sent between nodes, over the one link that a node's ranks share
  double h2dBandwidth = 10e9;      ///< bytes per second, host to device
  double d2hBandwidth = 10e9;      ///< device to host
  double nvmeReadBandwidth = 2e9;  ///< through the NVMe tier, checksums included
  double nvmeWriteBandwidth = 1e9; ///< the same
  double stepOverhead = 1e-6;      ///< seconds until a step of another queue that waits for one begins
  double halfFlopsPerSecond = 0;   ///< product of 16-bit matrices; 0: as fp32
  double tf32FlopsPerSecond = 0;   ///< product of fp32 matrices of factors rounded to TF32; 0: as fp32
  double hostMemoryBandwidth = 0;  ///< of the host, a rank's share; 0: the device is the host

  struct Field {
    const char *name; ///< in the machine file
    double MachineModel::*rate;
  };
  static const Field kFields[12];
  bool operator==(const MachineModel &other) const;
};

inline constexpr MachineModel::Field MachineModel::kFields[12] = {
    {"flops_per_second", &MachineModel::flopsPerSecond},
    {"memory_bandwidth", &MachineModel::memoryBandwidth},
    {"comm_bandwidth", &MachineModel::commBandwidth},
    {"node_bandwidth", &MachineModel::nodeBandwidth},
    {"h2d_bandwidth", &MachineModel::h2dBandwidth},
    {"d2h_bandwidth", &MachineModel::d2hBandwidth},
    {"nvme_read_bandwidth", &MachineModel::nvmeReadBandwidth},
    {"nvme_write_bandwidth", &MachineModel::nvmeWriteBandwidth},
    {"step_overhead", &MachineModel::stepOverhead},
    {"half_flops_per_second", &MachineModel::halfFlopsPerSecond},
    {"tf32_flops_per_second", &MachineModel::tf32FlopsPerSecond},
    {"host_memory_bandwidth", &MachineModel::hostMemoryBandwidth}};

inline bool MachineModel::operator==(const MachineModel &other) const {
  for (const Field &field : kFields)
    if (this->*field.rate != other.*field.rate)
      return false;
  return true;
}

} // namespace zc
