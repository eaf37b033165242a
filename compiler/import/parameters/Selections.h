//===- Selections.h - initializers that the user names ---------------------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "runtime/base/Status.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/GlobPattern.h"

namespace zc::importer {

/// Which selection is meant for an initializer, and whether each is for any.
class Selections {
public:
  /// Errors: usage (no glob).
  static Result<Selections> compile(const std::vector<Selection> &selections);

  /// The one that wins for `name`; null where none matches. The others that match count as used.
  const Selection *match(llvm::StringRef name);
  /// Does nothing train that no selection names?
  bool areAll() const;
  /// Errors: usage (one that no initializer matched).
  Status allUsed() const;

  /// As it was given: "--trainable GLOB".
  static std::string flagOf(const Selection &selection);

private:
  struct Entry {
    Selection selection;
    llvm::GlobPattern glob;
    size_t letters; ///< that stand for themselves; most for a name
    bool used = false;
  };
  std::vector<Entry> entries;
};

} // namespace zc::importer
