//===- BatchNormKernel.h - what making a batch norm's kernel begins with --------------===//
#pragma once

#include "kernels/cpu/Support.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/Windows.h"

namespace zc::cpu {

/// The kernel that `make` makes of the element type's tag and of the shape that was `read`; of what `isDeclined`, none,
/// so that it is left to the next one.
template <typename Make>
Prepared prepareBatchNormBy(const Result<BatchNormShape> &read, bool (*isDeclined)(const BatchNormShape &),
                            const Make &make) {
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read))
    return decline();
  return withFast(read->dtype, [&](auto tag) { return make(tag, *read); });
}

} // namespace zc::cpu
