//===- Selections.h - initializers that the user names ---------------------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "compiler/import/parameters/Globs.h"

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
  std::vector<Selection> selections;
  Globs globs;            ///< of the same index
  std::vector<bool> used; ///< of the same index
};

} // namespace zc::importer
