//===- ModelOrder.h - activations that may have their channels last ---------------------===//
#pragma once

#include "kernels/shapes/Support.h"

namespace zc::shapes {

bool isChannelsLast(const KernelSpec &spec);
/// A tensor's dimensions as [N, C, d...].
Dims inModelOrder(const KernelSpec &spec, size_t operand);

} // namespace zc::shapes
