#include "runtime/io/File.h"
#include "runtime/train/Checkpoint.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Progress.h"

#include <sys/stat.h>

namespace zc::run {

/// A line on stdout for each that is whole; the first that is not decides the exit code, all of them are told.
Status verifyCheckpointCommand(const Flags &flags) {
  struct stat info = {};
  std::vector<std::string> folders = {flags.checkpoint};
  if (::lstat((flags.checkpoint + "/" + train::kManifestFile).c_str(), &info) != 0) {
    auto found = train::listCheckpoints(flags.checkpoint);
    if (!found)
      return found.error();
    if (!found->empty())
      folders = std::move(*found);
  }
  Status outcome;
  for (const std::string &folder : folders) {
    auto manifest = train::readManifest(folder);
    Status status = manifest ? train::verifyFiles(*manifest) : Status(manifest.error());
    if (status.ok())
      print(1, escapeName(folder) + ": whole, step " + std::to_string(manifest->step) + ", " +
                   std::to_string(manifest->tensors.size()) + " tensors in " + std::to_string(manifest->files.size()) +
                   " files\n");
    else if (outcome.ok())
      outcome = status;
    else
      print(2, render(status.error()) + "\n");
  }
  return outcome;
}

} // namespace zc::run
