//===- Suggest.cpp - "did you mean" -----------------------------------------------------===//

#include "runtime/base/Suggest.h"

#include <algorithm>

/// Levenshtein distance.
static size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t here = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
      corner = row[j];
      row[j] = here;
    }
  }
  return row[b.size()];
}

std::string zc::nearest(const std::string &name, const std::vector<std::string> &candidates) {
  std::string best;
  size_t least = 1 + name.size() / 3;
  for (const std::string &candidate : candidates)
    if (size_t d = distance(name, candidate); d < least) {
      least = d;
      best = candidate;
    }
  return best;
}
