//===- MachineModel.h - machine files, and machines by name -------------------------===//
#pragma once

#include "kernels/Target.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Machine.h"

#include <string>
#include <string_view>

namespace zc {

/// Reads what `zero-run bench-io DIR -o FILE` writes: one JSON object of positive numbers. A field that is not there
/// keeps its default. Errors: the file cannot be read (io), is no such object, names an unknown field or a rate that is
/// not positive (badInput).
Result<MachineModel> readMachine(const std::string &path);

/// A machine that is known by its name.
struct MachinePreset {
  std::string_view name;
  Target target;
  MachineModel model;
};
/// Null where there is none of that name.
const MachinePreset *findMachine(std::string_view name);
/// "h200, h100, ..."
std::string machineNames();

} // namespace zc
