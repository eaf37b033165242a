#include "runtime/io/OutputFile.h"
#include "runtime/train/Resume.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Progress.h"

namespace zc::run {

/// A line on stdout for each that is whole; the first that is not decides the exit code, all of them are told.
Status verifyCheckpointCommand(const Flags &flags) {
  auto choice = train::CheckpointChoice::of(flags.checkpoint);
  if (!choice)
    return choice.error();
  Status outcome, told;
  for (const std::string &folder : choice->all()) {
    auto manifest = train::readManifest(folder);
    Status status = manifest ? train::verifyFiles(*manifest) : Status(manifest.error());
    if (status.ok()) {
      Status written = io::writeToStdout(escapeName(folder) + ": whole, step " + std::to_string(manifest->step) + ", " +
                                         std::to_string(manifest->tensors.size()) + " tensors in " +
                                         std::to_string(manifest->files.size()) + " files\n");
      told = told.ok() ? written : told;
    } else if (outcome.ok())
      outcome = status;
    else
      print(2, render(status.error()) + "\n");
  }
  return outcome.ok() ? told : outcome;
}

} // namespace zc::run
