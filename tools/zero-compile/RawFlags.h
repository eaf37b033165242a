//===- RawFlags.h - flags as they are given ----------------------------------------------===//
#pragma once

#include "tools/zero-compile/Flags.h"

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
  int64_t delayAfter = 40;
  bool delayUpdate = false;
  bool list = false, help = false, helpAll = false, version = false;
};

/// Binds all flags to where their values go.
void addFlags(CLI::App &app, Flags &flags, RawFlags &raw);

} // namespace zc::tool
