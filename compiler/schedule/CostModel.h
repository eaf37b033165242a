//===- CostModel.h - how long an operation takes --------------------------------===//
#pragma once

#include "compiler/schedule/MachineModel.h"
#include "runtime/comm/Mesh.h"

#include "mlir/IR/BuiltinOps.h"

namespace zc {

/// The module's `zc.machine`; what it does not say has its default.
MachineModel machineOf(mlir::ModuleOp module);

/// Seconds of one operation of the zero level: the larger of its arithmetic and its memory traffic (roofline), or of
/// its bytes on the wire, of the slower link.
double secondsOf(mlir::Operation *op, const MachineModel &machine, const Mesh &mesh);

} // namespace zc
