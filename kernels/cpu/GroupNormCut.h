//===- GroupNormCut.h - how the fast group norm cuts its work, and what it works in -----------===//
#pragma once

#include "kernels/cpu/Support.h"
#include "kernels/shapes/GroupNorm.h"

namespace zc::cpu {

/// Each sample's rows of channels in parts, by the shape alone, and parts in blocks that stay in a cache; in the
/// model's order each sample is a part, summed plane by plane.
struct GroupNormCut {
  int64_t batch, channels, parts, blockRows;
  bool isWhole, isGrad, areLast;
  /// `isWhole`: it computes elements too, and has what a channel is multiplied by in its workspace.
  GroupNormCut(const GroupNormShape &s, bool isWhole, bool isGrad)
      : batch(s.batch), channels(s.channels), parts(1),
        blockRows(std::clamp<int64_t>(16384 / std::max<int64_t>(s.channels, 1), 8, 64)), isWhole(isWhole),
        isGrad(isGrad), areLast(s.channelsLast) {
    if (areLast)
      parts = std::clamp<int64_t>(32 / std::max<int64_t>(batch, 1), 1,
                                  std::max<int64_t>(1, quotientUp(s.inner, blockRows)));
  }
  /// Doubles: of a part's channels two sums, or three of groups, which are as many at most.
  int64_t totals() const { return Workspace::times(isGrad ? 2 : 3, batch, parts, channels); }
  /// Floats: a part's block's sums.
  int64_t room() const { return areLast ? Workspace::times(2, batch, parts, channels) : 0; }
  /// Floats: numbers of each sample's channels, and those of channels.
  int64_t table() const {
    return isWhole ? Workspace::times(Workspace::times(isGrad ? 4 : 2, batch) + 1, channels) : 0;
  }
  int64_t bytes() const {
    return Workspace::sum(Workspace::bytesOf<double>(totals()), Workspace::bytesOf<float>(room()),
                          Workspace::bytesOf<float>(table()));
  }
};

} // namespace zc::cpu
