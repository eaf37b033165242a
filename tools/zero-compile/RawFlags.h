//===- RawFlags.h - flags as they are given ----------------------------------------------===//
#pragma once

#include "tools/zero-compile/Flags.h"

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace zc::tool {

/// Text of flags that the parser keeps and parseFlags reads.
struct RawFlags {
  std::string config;
  std::vector<std::string> dims, ties, paddings;
  std::string betas, bucketSize, tileLinear, prefetch = "auto", residency = "auto";
  std::string deviceMemory, hostMemory, nvmeMemory, compileTo;
  std::map<std::string, std::string> missing;
  std::map<std::string, bool> missingSwitches;
  bool list = false, help = false, helpAll = false, version = false;
};

/// Binds all flags to where their values go.
void addFlags(CLI::App &app, Flags &flags, RawFlags &raw);
/// Flags whose feature is not there were given with their neutral value or not at all. Errors: unsupported.
Status checkMissing(const CLI::App &app, const RawFlags &raw);

} // namespace zc::tool
