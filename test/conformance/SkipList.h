//===- SkipList.h - node tests that need not pass, and why ---------------------===//
//
// Text. A line `: REASON`, or `:MODE: REASON` for one mode, heads regular expressions, one per line, each of which
// matches whole names of tests. `#` begins a comment.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "test/conformance/Modes.h"

#include <regex>

namespace zc::test {

class SkipList {
public:
  /// False, with `problem`, if the file is missing or wrong.
  bool read(const std::filesystem::path &path, std::string &problem);
  /// The reason, or null.
  const std::string *reasonFor(const std::string &name, Mode mode);
  /// Expressions that matched nothing.
  std::vector<std::string> unused() const;

private:
  struct Entry {
    std::string text, reason;
    std::regex names;
    std::optional<Mode> mode;
    bool used = false;
  };
  std::vector<Entry> entries;
};

} // namespace zc::test
