//===- HeadRows.h - rows of logits, as a head's loss and its gradient take them ----------------===//
//
// Where a head is more than a product and its cross-entropy: logits are capped each time they are read, never stored
// so, and what all classes have of a loss (label smoothing) is summed beside what the label has.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc::cpu {

struct HeadRow {
  DType type;
  int64_t classes;
  float cap;                     ///< 0: none
  const float *shares = nullptr; ///< of a sum over classes; null: none is wanted
  float shareSum = 0;            ///< of all shares
};

/// Of log-softmax y = x - lse.
struct RowLogs {
  float lse;
  float picked; ///< y[label]
  float shared; ///< sum of shares[c] y[c]
};
RowLogs logsOf(const HeadRow &row, const void *logits, int64_t label);

/// The gradient of ofLabel y[label] + ofAll (sum of shares[c] y[c]) comes to lie where the logits are.
struct RowSlopes {
  float ofLabel, ofAll;
};
void logsToGradient(const HeadRow &row, void *logits, int64_t label, float lse, RowSlopes slopes);

} // namespace zc::cpu
