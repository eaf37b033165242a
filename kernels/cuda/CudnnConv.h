//===- CudnnConv.h - which convolutions cuDNN computes, in how many bytes -------------------===//
//
// Known without cuDNN: the compiler plans the bytes. Whether cuDNN agrees is asked where it is
// (test/cuda/libraries.py).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/shapes/Windows.h"

#include <optional>

namespace zc::cuda {

using shapes::Dims;

/// Which of the convolution's tensors the kernel computes.
enum class ConvPass : uint8_t { output, input, weight };

/// Of f32, bf16 and f16, with one to three spatial dimensions; sums in fp32.
struct CudnnConv {
  shapes::ConvShape
      shape; ///< with two or three spatial dimensions: cuDNN knows no row alone, which is a plane of height 1
  ConvPass pass;
  bool tf32 = false; ///< of f32, KernelSpec's
  /// Of conv, conv_transpose or conv_weight_grad; nothing for what is ours.
  static std::optional<CudnnConv> of(const KernelSpec &spec);

  /// That cuDNN may work in: all three tensors with channels last, which its kernels for tensor cores want, and, of a
  /// weight's gradient, partial sums of up to 32 MiB.
  int64_t workspaceBytes() const;
  /// Extents: [N, C, in...], [M, C / groups, kernel...], [N, M, out...].
  Dims input() const { return extents(shape.batch, shape.inChannels, shape.windows.in); }
  Dims weight() const { return extents(shape.outChannels, shape.inPerGroup(), shape.windows.kernel); }
  Dims output() const { return extents(shape.batch, shape.outChannels, shape.windows.out); }

private:
  static Dims extents(int64_t first, int64_t second, const Dims &rest);
};

} // namespace zc::cuda
