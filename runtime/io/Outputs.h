//===- Outputs.h - what an output must not take away ------------------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/io/FileKind.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zc {

/// A file or folder as the user named it. `flag` is the one that did, empty for an argument.
struct NamedPath {
  std::string flag;
  std::string path; ///< empty: none was given
  /// Of an output: a folder that files are written into beside what is there, so that it stands for itself alone.
  bool isShared = false;
  /// Of an output that one flag names: what it will be; text is of no kind that kindOf knows.
  std::optional<FileKind> kind = std::nullopt;
};

/// An output that is written as a file of such a kind.
inline NamedPath written(std::string flag, std::string path, FileKind kind) {
  return {std::move(flag), std::move(path), /*isShared=*/false, kind};
}

/// Refuses outputs that are an input or another output, told by device and inode, so that links, hard links and ways
/// around a name count; what is not there yet is told by its folder and its name. A folder among the outputs stands for
/// all below it, unless it is shared: it is replaced or removed as a whole. Devices and pipes are written to by whoever
/// likes. "-" is no file: who writes to stdout then does not ask. An output whose kind is given replaces files of that
/// kind, and of none that is known, but no others and no checkpoint's: "-o other.onnx" is a mistake. Errors: usage,
/// naming both.
Status checkOutputs(const std::vector<NamedPath> &inputs, const std::vector<NamedPath> &outputs);

} // namespace zc
