//===- TensorSize.h - which tensors can be counted ----------------------------------===//
#pragma once

#include "base/Tensor.h"

namespace zc {

/// No tensor of a plan is larger; a few thousand times as many bytes can still be counted.
constexpr int64_t kMaxTensorBytes = int64_t(1) << 48;

/// Is no dimension of `type` negative, and have those that are not zero kMaxTensorBytes together at most? Zero ones
/// excuse no others: kernels count along some dimensions alone.
inline bool isCountable(const TensorType &type) {
  int64_t bytes = sizeOf(type.dtype);
  for (int64_t d : type.dims)
    if (d < 0 || (d != 0 && (__builtin_mul_overflow(bytes, d, &bytes) || bytes > kMaxTensorBytes)))
      return false;
  return true;
}

} // namespace zc
