#include "runtime/train/VerifyCheckpoint.h"
#include "runtime/io/OutputFile.h"
#include "runtime/train/Resume.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Progress.h"

namespace zc::run {

/// What was found of checkpoints of which there may be several.
struct Findings {
  Status outcome; ///< the first that is not whole; the others are told at once
  Status told;
  bool isAny = false; ///< of those that are still there
};

/// A line on stdout for each that is whole.
static Findings verifyAll(const train::CheckpointChoice &choice, bool isPatient) {
  Findings found;
  for (const std::string &folder : choice.all()) {
    bool replaced = false;
    auto manifest = train::readVerified(folder, train::verifyFiles, replaced);
    if (!manifest && replaced && choice.isOfRun() && isPatient)
      continue; // by the run that goes on there
    found.isAny = true;
    if (manifest) {
      Status written = io::writeToStdout(escapeName(folder) + ": whole, step " + std::to_string(manifest->step) + ", " +
                                         std::to_string(manifest->tensors.size()) + " tensors in " +
                                         std::to_string(manifest->files.size()) + " files\n");
      found.told = found.told.ok() ? written : found.told;
    } else if (found.outcome.ok())
      found.outcome = manifest.error();
    else
      print(2, render(manifest.error()) + "\n");
  }
  return found;
}

/// The first checkpoint that is not whole decides the exit code.
Status verifyCheckpointCommand(const Flags &flags) {
  for (int left = 100;; --left) { // what never stands still is an error one day
    auto choice = train::CheckpointChoice::of(flags.checkpoint);
    if (!choice)
      return choice.error();
    Findings found = verifyAll(*choice, left > 0);
    if (found.isAny) // else a run has removed all of them meanwhile, and saved others
      return found.outcome.ok() ? found.told : found.outcome;
  }
}

} // namespace zc::run
