//===- MachineModel.h - the machine file ---------------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Machine.h"

#include <string>

namespace zc {

/// Reads what `zero-run bench-io DIR -o FILE` writes: one JSON object of positive numbers. A field that is not there
/// keeps its default. Errors: the file cannot be read (io), is no such object, names an unknown field or a rate that is
/// not positive (badInput).
Result<MachineModel> readMachine(const std::string &path);

} // namespace zc
