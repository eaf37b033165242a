//===- Commands.h - the commands of zero-run ----------------------------------------------------------===//
#pragma once

#include "tools/zero-run/Flags.h"

namespace zc::run {

Status trainCommand(const Flags &flags);
Status evalCommand(const Flags &flags);
/// Either of them with --hosts: shows the command that starts the ranks, and runs it.
Status launchCommand(const Flags &flags);
Status inspectCommand(const Flags &flags);
Status exportCommand(const Flags &flags);
Status verifyCheckpointCommand(const Flags &flags);
Status doctorCommand();
/// bench-io, and bench-machine without plans: this machine's rates, for zero-compile --machine.
Status measureRates(const Flags &flags);
/// bench-machine of plans and shapes: the table of products, for --products.
Status measureProducts(const Flags &flags);
Status slurmCommand();

} // namespace zc::run
