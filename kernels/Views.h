//===- Views.h - kernels that read and write through views --------------------------===//
//
// A spec may have the attribute `views` (base/StridedView.h): the kernel's operands and results are then what
// these show of the step's. Which kernels can do so is one of their traits (Traits.h); all others refuse such a spec.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/StridedView.h"
#include "kernels/Kernel.h"

namespace zc {

/// Can the spec's kernel have its views, if there are any? Errors: corrupt plan.
Status checkViews(const KernelSpec &spec);

/// A spec as its kernel's description has it, without `views`, and where each of its operands is seen: by a view of all
/// of it where there are none.
struct SeenSpec {
  KernelSpec spec;
  std::vector<StridedView> views;
};
/// Errors: as checkViews.
Result<SeenSpec> throughViews(const KernelSpec &spec);

/// Is element i of what the kernel sees of an operand, sound as the spec's views are, element i of that operand?
bool isSeenWhole(const KernelSpec &spec, size_t operand);

/// Strides of a view along a shape that it broadcasts to: 0 along repeated dimensions.
std::vector<int64_t> stridesAlong(const StridedView &view, const std::vector<int64_t> &shape);

} // namespace zc
