//===- Listed.h - names in a message ------------------------------------------===//
#pragma once

#include <string>
#include <vector>

namespace zc::importer {

/// "'a', 'b' and 3 more"
inline std::string listed(const std::vector<std::string> &names, size_t most = 8) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

} // namespace zc::importer
