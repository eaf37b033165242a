//===- CostModel.h - how long an operation takes --------------------------------===//
#pragma once

#include "base/Mesh.h"
#include "compiler/schedule/MachineModel.h"
#include "dialects/zero/Zero.h"

namespace zc {

/// The machine that a module is planned for: `plan.machine`, a rate for each field of a machine file.
void setMachine(mlir::ModuleOp module, const MachineModel &machine);
/// With the rate of products in the module's precision; what it does not say has its default.
MachineModel machineOf(mlir::ModuleOp module);

/// Seconds of an operation that takes `work`: the largest of its arithmetic, its memory traffic (roofline), and its
/// bytes on the wire of the slower link.
double secondsOf(const zero::Work &work, const MachineModel &machine, const Mesh &mesh);

} // namespace zc
