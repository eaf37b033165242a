//===- CostModel.h - how long an operation takes --------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"

namespace zc {

/// Rates of one rank. The defaults are a server core's order of magnitude; a machine file replaces them.
struct MachineModel {
  double flopsPerSecond = 150e9; ///< fp32 matrix product
  double memoryBandwidth = 20e9; ///< bytes per second
  double commBandwidth = 4e9;    ///< bytes per second between ranks
  double h2dBandwidth = 10e9;    ///< bytes per second, host to device
  double d2hBandwidth = 10e9;    ///< device to host
  double nvmeReadBandwidth = 2e9;
  double nvmeWriteBandwidth = 1e9;
  double stepOverhead = 1e-6; ///< seconds to start any step
};

/// Seconds of one operation of the zero level: the larger of its arithmetic and its memory traffic (roofline), or of
/// its bytes on the wire. `worldSize` as in the mesh.
double secondsOf(mlir::Operation *op, const MachineModel &machine, int64_t worldSize);

} // namespace zc
