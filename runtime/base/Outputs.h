//===- Outputs.h - nothing that is read is written over --------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <vector>

namespace zc {

/// A file or folder as the user named it. `flag` is the one that did, empty for an argument.
struct NamedPath {
  std::string flag;
  std::string path; ///< empty: none was given
  /// Of an output: a folder that files are written into beside what is there, so that it stands for itself alone.
  bool isShared = false;
};

/// Refuses outputs that are an input or another output, told by device and inode, so that links, hard links and ways
/// around a name count; what is not there yet is told by its folder and its name. A folder among the outputs stands for
/// all below it, unless it is shared: it is replaced or removed as a whole. Devices and pipes are written to by whoever
/// likes. "-" is no file: who writes to stdout then does not ask. Errors: usage, naming both.
Status checkOutputs(const std::vector<NamedPath> &inputs, const std::vector<NamedPath> &outputs);

} // namespace zc
