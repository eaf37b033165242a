//===- MaskGradient.h - the gradient of what attention adds to its scores ------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"

namespace zc::cpu {

/// A fourth result of attention_grad: the gradient of its mask, which has an element for each query and key.
struct MaskGradient {
  bool isWanted;
  int64_t batches, heads; ///< that have masks of their own; the gradients of the others are summed
};
/// Of a spec that readAttentionGrad takes. Errors: a mask or a result of another form (corrupt plan).
Result<MaskGradient> readMaskGradient(const KernelSpec &spec, const AttentionShape &s);

/// Which heads of keys a thread takes one after the other: those whose queries add to the same elements of the mask's
/// gradient, by batch and by head, or else one.
struct AttentionGroups {
  AttentionGroups(const AttentionShape &s, const MaskGradient &mask)
      : groups((mask.isWanted ? mask.batches : s.batch) * (mask.isWanted && mask.heads == 1 ? 1 : s.keyHeads)),
        members(groups == 0 ? 0 : s.batch * s.keyHeads / groups),
        isAcross(mask.isWanted && mask.batches == 1 && groups > 1) {}
  /// Of all batches.
  int64_t keyHead(int64_t group, int64_t member) const {
    return isAcross ? member * groups + group : group * members + member;
  }
  int64_t groups, members;

private:
  bool isAcross; ///< a head of each batch
};

} // namespace zc::cpu
