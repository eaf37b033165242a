//===- CommandLine.h - what CLI11 leaves to the tools ------------------------------===//
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace zc::tool {

/// The flags that `app` knows by long names, with their dashes.
inline std::vector<std::string> longFlags(const CLI::App &app) {
  std::vector<std::string> flags;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      flags.push_back("--" + name);
  return flags;
}

/// The flag of which an empty value was given: a shell's variable that is not set would else be a flag that was not.
inline std::optional<std::string> flagWithoutValue(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    for (const std::string &value : option->results())
      if (value.empty())
        return option->get_name();
  return std::nullopt;
}

} // namespace zc::tool
