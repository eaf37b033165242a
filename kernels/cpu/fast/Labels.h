//===- Labels.h - labels of rows, checked and counted -------------------------------===//
#pragma once

#include "kernels/cpu/Support.h"

namespace zc::cpu {

/// Number of rows that count; `s`: a CrossEntropyShape or a HeadShape. Errors: the first label that is none.
template <typename Shape, typename L>
Result<int64_t> countLabels(const KernelSpec &spec, const Shape &s, const L *labels) {
  int64_t count = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    if (labels[r] == s.ignoreIndex)
      continue;
    if (labels[r] < 0 || labels[r] >= s.classes)
      return outOfRange(spec, "label", labels[r], 0, s.classes);
    ++count;
  }
  return count;
}

} // namespace zc::cpu
