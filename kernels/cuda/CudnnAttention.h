//===- CudnnAttention.h - what of attention cuDNN computes, and in how many calls -----------===//
//
// Known without cuDNN: the compiler plans the bytes. Whether cuDNN agrees is asked where it is
// (test/cuda/libraries.py).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"

namespace zc::cuda {

/// Its deterministic gradient keeps the gradients of all scores (16 bits each, rows padded to 64, columns to 128), so
/// heads go in pieces that work in 256 MiB.
struct CudnnAttention {
  cpu::AttentionShape shape; ///< of a call
  int64_t calls = 0;         ///< 0: a single head takes more than 1 GiB, or cuDNN is not asked for such attention
  CudnnAttention(const cpu::AttentionShape &whole, bool isGradient);
  /// Of attention, or of attention_grad; the gradient of a mask and dropout are ours.
  static CudnnAttention of(const KernelSpec &spec);

  /// Bytes that the gradient of one call works in, as cuDNN 9.28 says for compute capability 9.0.
  static int64_t gradBytes(const cpu::AttentionShape &s);
  /// Bytes from call to call, per operand of `spec`; 0 for a mask that is the same for all.
  std::vector<int64_t> strides(const KernelSpec &spec) const;
};

} // namespace zc::cuda
