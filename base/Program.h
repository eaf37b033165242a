//===- Program.h - what stands around the work of a program ----------------------===//
#pragma once

#include "base/Status.h"

#include <functional>

namespace zc {

/// The work of `program`, by whose name a defect is reported: on a stack that may grow as far as ours ever do, or as
/// far as the hard limit lets it, with threads that have as much, and what it throws as an error. Errors: of `work`;
/// budget (no memory, no thread, too small a stack), internal.
Status runGuarded(const char *program, const std::function<Status()> &work);

} // namespace zc
