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
Status benchIoCommand(const Flags &flags);
Status benchMachineCommand(const Flags &flags);
Status slurmCommand();

} // namespace zc::run
