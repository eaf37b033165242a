//===- MetricShapes.h - specs of losses', gradients' and norms' sums, checked and read -------===//
//
// Every version of a kernel, on whatever processor, accepts the same specs: all read them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/formula/Metrics.h"
#include "kernels/shapes/Support.h"

namespace zc::shapes {

/// Operands: loss, [weight], f64 sums of both.
Status checkAccumulateLoss(const KernelSpec &spec);
/// Operands: part, sum, as many elements of one type.
Status checkAccumulateGradient(const KernelSpec &spec);
/// Operands: x in blocks of 64 elements, accumulator.
Status checkNormPartial(const KernelSpec &spec);
/// Operands: accumulator, [f64 sum of weights], norm, factor.
Result<formula::ClipRule> readNormFinish(const KernelSpec &spec);
/// [offset, count, ...] in elements, inside the operand.
Result<std::vector<int64_t>> readFillGaps(const KernelSpec &spec);

} // namespace zc::shapes
