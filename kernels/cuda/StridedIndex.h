//===- StridedIndex.h - from an element's number to its places in N tensors --------===//
#pragma once

#include "kernels/cuda/Divider.h"
#include "kernels/shapes/Strided.h"

namespace zc::cuda {

/// Offsets of N tensors along a common index space, in elements; dimensions that all walk alike are merged. Passed to
/// kernels by value.
template <size_t N> struct StridedIndex {
  int rank;
  bool small; ///< fewer than 2^31 elements
  // Zeroes behind `rank`: what a kernel is told is the same each time, and nothing that lay in the stack.
  Divider divider[shapes::kMaxRank] = {};
  int64_t size[shapes::kMaxRank] = {};
  int64_t stride[N][shapes::kMaxRank] = {};
  bool dense[N];  ///< element i is the tensor's i-th
  bool scalar[N]; ///< all are the tensor's first

  explicit StridedIndex(const shapes::Walk<N> &walk) : rank(static_cast<int>(walk.numDims())) {
    int64_t n = 1;
    for (size_t t = 0; t < N; ++t)
      dense[t] = scalar[t] = true;
    for (size_t i = walk.numDims(); i-- > 0;) {
      size[i] = walk.dim(i);
      divider[i] = size[i] > 0 && size[i] < INT32_MAX ? Divider(static_cast<uint32_t>(size[i])) : Divider();
      for (size_t t = 0; t < N; ++t) {
        stride[t][i] = walk.stride(t, i);
        dense[t] = dense[t] && (size[i] == 1 || stride[t][i] == n);
        scalar[t] = scalar[t] && (size[i] == 1 || stride[t][i] == 0);
      }
      n *= size[i];
    }
    small = n < INT32_MAX;
  }

  /// Sets at[t] for element `index` of the space.
  ZC_HD void offsets(int64_t index, int64_t (&at)[N]) const {
    for (size_t t = 0; t < N; ++t)
      at[t] = 0;
    for (int i = rank - 1; i >= 0; --i) {
      int64_t quotient = i == 0  ? 0
                         : small ? static_cast<int64_t>(divider[i].quotient(static_cast<uint32_t>(index)))
                                 : index / size[i];
      int64_t rest = index - quotient * size[i];
      for (size_t t = 0; t < N; ++t)
        at[t] += rest * stride[t][i];
      index = quotient;
    }
  }
};

} // namespace zc::cuda
