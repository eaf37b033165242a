//===- Hosts.h - machines that ranks are to run on ---------------------------------===//
#pragma once

#include "base/Status.h"

#include <string>
#include <vector>

namespace zc::launch {

struct Host {
  std::string name;
  int ranks = 0;
};

/// `text` is "a:2,b:2", or a file with one host per line, "a", "a:2" or "a slots=2", and # for comments. A host without
/// a number gets `perHost`. Errors: usage (nothing there, a bad number, a name that starts with "-"), badInput.
Result<std::vector<Host>> parseHosts(const std::string &text, int perHost);

/// Ranks on all of them.
int ranksOf(const std::vector<Host> &hosts);

} // namespace zc::launch
