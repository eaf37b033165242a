//===- main.cpp - zero-run -------------------------------------------------------------------------------===//
#include "base/Failpoint.h"
#include "base/Program.h"
#include "base/StandardStreams.h"
#include "runtime/io/OutputFile.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Process.h"
#include "tools/zero-run/Progress.h"

#include <cstdlib>

using namespace zc;
using namespace zc::run;

static Status dispatch(const Flags &flags) {
  switch (flags.command) {
  case Flags::Command::text:
    return io::writeToStdout(flags.text);
  case Flags::Command::train:
    return flags.hosts.empty() ? trainCommand(flags) : launchCommand(flags);
  case Flags::Command::eval:
    return flags.hosts.empty() ? evalCommand(flags) : launchCommand(flags);
  case Flags::Command::slurmTemplate:
    return slurmCommand();
  case Flags::Command::inspect:
    return inspectCommand(flags);
  case Flags::Command::exportWeights:
    return exportCommand(flags);
  case Flags::Command::verifyCheckpoint:
    return verifyCheckpointCommand(flags);
  case Flags::Command::doctor:
    return doctorCommand();
  case Flags::Command::measureRates:
    return measureRates(flags);
  case Flags::Command::measureProducts:
    return measureProducts(flags);
  }
  return Status::success();
}

static Status start(int argc, char **argv) {
  if (const char *faults = std::getenv("ZERO_FAULT"))
    ZC_RETURN_IF_ERROR(setFailpoints(faults));
  auto flags = parseFlags(argc, argv);
  if (flags && flags->noCore)
    leaveNoCore();
  return flags ? dispatch(*flags) : Status(flags.error());
}

int main(int argc, char **argv) {
  guardStandardStreams();
  waitBriefly(argv);
  Status status = runGuarded("zero-run", [&] { return start(argc, argv); });
  if (status.ok())
    return 0;
  if (!status.error().message.empty()) // else it has been said, here or by another rank
    print(2, render(status.error()) + "\n");
  return int(status.error().code);
}
