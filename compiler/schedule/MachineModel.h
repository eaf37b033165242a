//===- MachineModel.h - rates of a machine ------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <string>

namespace zc {

/// Rates of one rank. The defaults are a server core's order of magnitude; a machine file replaces them.
struct MachineModel {
  double flopsPerSecond = 150e9; ///< fp32 matrix product
  double memoryBandwidth = 20e9; ///< bytes per second
  double commBandwidth = 4e9;    ///< bytes per second between ranks of a node
  double nodeBandwidth = 1.25e9; ///< bytes per second between nodes, over the one link that a node's ranks share
  double h2dBandwidth = 10e9;    ///< bytes per second, host to device
  double d2hBandwidth = 10e9;    ///< device to host
  double nvmeReadBandwidth = 2e9;
  double nvmeWriteBandwidth = 1e9;
  double stepOverhead = 1e-6; ///< seconds to start any step

  struct Field {
    const char *name; ///< in the machine file
    double MachineModel::*rate;
  };
  static const Field kFields[9];
};

/// Reads what `zero-run bench-io DIR -o FILE` writes: one JSON object of positive numbers. A field that is not there
/// keeps its default. Errors: the file cannot be read (io), is no such object, names an unknown field or a rate that is
/// not positive (badInput).
Result<MachineModel> readMachine(const std::string &path);

} // namespace zc
