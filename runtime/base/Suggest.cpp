//===- Suggest.cpp - "did you mean" -----------------------------------------------------===//

#include "runtime/base/Suggest.h"

#include <algorithm>
#include <numeric>

/// Levenshtein distance in which two neighbours that are swapped count once (optimal string alignment).
static size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> before, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::move(above);
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
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
