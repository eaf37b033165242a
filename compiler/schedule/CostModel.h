//===- CostModel.h - how long an operation takes --------------------------------===//
#pragma once

#include "runtime/comm/Mesh.h"

#include "mlir/IR/Operation.h"

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
};

/// Seconds of one operation of the zero level: the larger of its arithmetic and its memory traffic (roofline), or of
/// its bytes on the wire, of the slower link.
double secondsOf(mlir::Operation *op, const MachineModel &machine, const Mesh &mesh);

} // namespace zc
