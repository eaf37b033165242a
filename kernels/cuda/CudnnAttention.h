//===- CudnnAttention.h - what of attention cuDNN computes, and in how many calls -----------===//
//
// Known without cuDNN: the compiler plans the bytes. Whether cuDNN agrees is asked where it is
// (test/cuda/libraries.py).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/shapes/Shapes.h"

#include <array>
#include <optional>

namespace zc::cuda {

enum class AttentionPass : uint8_t { forward, gradient };

/// A tensor of a call, [batch, heads, rows, columns], anywhere in an operand of the step.
struct CudnnHeads {
  size_t operand;
  std::array<int64_t, 4> dims, strides; ///< elements
  /// Bytes from the operand's beginning to the first call's, from those of one part of the samples to the next part's,
  /// and from one part of the heads to the next.
  int64_t offset, batchStep, headStep;
};

/// Its deterministic gradient keeps the gradients of all scores (16 bits each, rows padded to 64, columns to 128), so
/// samples and heads go in parts that work in 256 MiB.
struct CudnnAttention {
  AttentionPass pass;
  shapes::AttentionShape shape;    ///< of a call
  int64_t batchParts, headParts;   ///< a call for each part of the samples and each of the key heads
  std::vector<CudnnHeads> tensors; ///< that the kernel's description names, in its order

  /// Of attention, or of attention_grad. Nothing where a single head takes more than 1 GiB, and for what cuDNN is not
  /// asked: the gradient of a mask, dropout, rows that no 16 bytes begin with.
  static std::optional<CudnnAttention> of(const KernelSpec &spec);
  /// The same where cuDNN is to compute it: not where ours is the faster one, nor where a bench asks for ours (`own`).
  static std::optional<CudnnAttention> chosen(const KernelSpec &spec);

  /// Bytes that the gradient of one call works in, as cuDNN 9.28 says for compute capability 9.0.
  static int64_t gradBytes(const shapes::AttentionShape &s);
  int64_t calls() const { return batchParts * headParts; }
  /// Bytes from the operands' beginnings to the tensors of a call.
  std::vector<int64_t> offsetsOf(int64_t call) const;

private:
  CudnnAttention(AttentionPass pass, const shapes::AttentionShape &whole)
      : pass(pass), shape(whole), batchParts(1), headParts(1) {}
  /// False where no part is small enough.
  bool cut();
};

} // namespace zc::cuda
