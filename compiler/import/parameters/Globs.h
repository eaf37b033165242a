//===- Globs.h - names of initializers as a person gives them ---------------------===//
#pragma once

#include "base/Status.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/GlobPattern.h"

#include <vector>

namespace zc::importer {

/// Globs in the order given, and which of them are meant for a name.
class Globs {
public:
  /// Errors: usage (no glob, located at `where`).
  Status add(const std::string &glob, const std::string &where = "");

  /// Those that match, by index, the one that wins first: the name itself before a glob, more letters before fewer, the
  /// later before the earlier.
  llvm::SmallVector<size_t> matching(llvm::StringRef name) const;

private:
  struct Entry {
    std::string text;
    llvm::GlobPattern glob;
    size_t letters; ///< that stand for themselves; most for a name
  };
  std::vector<Entry> entries;
};

} // namespace zc::importer
