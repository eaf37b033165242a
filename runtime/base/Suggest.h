//===- Suggest.h - "did you mean" ------------------------------------------------------===//
#pragma once

#include <string>
#include <vector>

namespace zc {

/// The candidate nearest to `name` by edit distance, if it is near enough to be a slip; empty otherwise.
std::string nearest(const std::string &name, const std::vector<std::string> &candidates);

} // namespace zc
