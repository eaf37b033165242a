//===- GroupNormCut.h - how group norms are cut on a GPU, and what they work in -------------===//
#pragma once

#include "kernels/cuda/Workspace.h"
#include "kernels/shapes/GroupNorm.h"

namespace zc::cuda {

/// Into how many parts a sample's rows of channels are cut for their sums: enough to fill a GPU, none shorter than 128;
/// in the model's order a block sums a plane.
inline int64_t groupNormParts(const shapes::GroupNormShape &s) {
  if (!s.channelsLast)
    return 1;
  constexpr int64_t enough = 256 * 1024;
  const int64_t most = enough / std::max<int64_t>(1, Space::times(s.batch, s.channels));
  return std::max<int64_t>(1, std::min(s.inner / 128, most));
}
/// Numbers of each sample's channels: what elements are computed with where the norm is whole, and, of a gradient, two
/// sums, in parts and then joined.
inline int64_t groupNormBytes(const shapes::GroupNormShape &s, bool isWhole, bool isGrad) {
  const int64_t sums = isGrad ? 2 * (groupNormParts(s) + 1) : 0, numbers = isWhole ? (isGrad ? 4 : 2) : 0;
  return Space::times(sums + numbers, s.batch, s.channels, sizeof(double));
}

} // namespace zc::cuda
