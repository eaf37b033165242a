//===- ConfiguredOption.h - what a configuration says of an option ----------------------===//
#pragma once

#include <string>

namespace zc {

/// An option's name (listOptions) and value, and the key of the configuration that says so.
struct ConfiguredOption {
  std::string name, value, key;
};

} // namespace zc
