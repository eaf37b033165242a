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
  float cap; ///< 0: none
};

/// Of log-softmax y = x - lse.
struct RowLogs {
  float lse;
  float picked; ///< y[label]
};
RowLogs logsOf(const HeadRow &row, const void *logits, int64_t label);

/// The gradient of `slope` y[label] lies where the logits are.
void logsToGradient(const HeadRow &row, void *logits, int64_t label, float lse, float slope);

} // namespace zc::cpu
