//===- GroupNorm.h - specs of group norm and its sums, checked and read ------------------===//
#pragma once

#include "kernels/shapes/Windows.h"

namespace zc::shapes {

/// Tensors [batch, channels, inner], or [batch, inner, channels]; what is both is channels last. Of each sample,
/// `groups` runs of channels have statistics of their own.
struct GroupNormShape {
  DType dtype, stat;
  int64_t batch, channels, inner, groups;
  double epsilon;
  bool channelsLast;

  PlaneOrder order() const { return {channels, channelsLast}; }
  int64_t perGroup() const { return channels / groups; }
  /// Elements of a group.
  int64_t count() const { return perGroup() * inner; }
  bool isEmpty() const { return batch == 0 || channels == 0 || inner == 0; }
};
/// Operands: input, scale, bias, result, mean, variance.
Result<GroupNormShape> readGroupNorm(const KernelSpec &spec);
/// Operands: grad, input, scale, mean, variance, d_input, d_scale, d_bias.
Result<GroupNormShape> readGroupNormGrad(const KernelSpec &spec);
/// Operands: input, scale, bias, mean, variance, centre, factor, shift.
Result<GroupNormShape> readGroupNormStatistics(const KernelSpec &spec);
/// Operands: grad, input, scale, mean, variance, d_scale, d_bias, centre, factor, slope, offset.
Result<GroupNormShape> readGroupNormGradSums(const KernelSpec &spec);

} // namespace zc::shapes
