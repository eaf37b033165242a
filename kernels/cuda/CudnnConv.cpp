#include "kernels/cuda/CudnnConv.h"

#include <algorithm>

namespace zc::cuda {

Dims CudnnConv::extents(int64_t first, int64_t second, const Dims &rest) {
  Dims all = {first, second};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

std::optional<CudnnConv> CudnnConv::of(const KernelSpec &spec) {
  ConvPass pass = spec.name == "conv"             ? ConvPass::output
                  : spec.name == "conv_transpose" ? ConvPass::input
                                                  : ConvPass::weight;
  Result<shapes::ConvShape> read = pass == ConvPass::output  ? shapes::readConv(spec)
                                   : pass == ConvPass::input ? shapes::readConvTranspose(spec)
                                                             : shapes::readConvWeightGrad(spec);
  if (!read.ok() || read->dtype == DType::f64)
    return std::nullopt;
  CudnnConv conv{std::move(*read), pass};
  conv.tf32 = spec.tf32 && conv.shape.dtype == DType::f32;
  shapes::Windows &w = conv.shape.windows;
  bool isEmpty = shapes::Workspace::times(conv.shape.batch, w.inPlane, w.outPlane, w.taps, conv.shape.inChannels,
                                          conv.shape.outChannels) == 0;
  // Behind an edge it takes zeros, but no cut.
  bool cuts = std::any_of(w.low.begin(), w.low.end(), [](int64_t low) { return low < 0; }) ||
              std::any_of(conv.shape.high.begin(), conv.shape.high.end(), [](int64_t high) { return high < 0; });
  if (isEmpty || cuts || w.in.empty() || w.in.size() > 3)
    return std::nullopt;
  if (w.in.size() == 1) {
    for (Dims *extent : {&w.in, &w.out, &w.kernel, &w.strides, &w.dilations})
      extent->insert(extent->begin(), 1);
    w.low.insert(w.low.begin(), 0);
    conv.shape.high.insert(conv.shape.high.begin(), 0);
  }
  return conv;
}

int64_t CudnnConv::workspaceBytes() const {
  constexpr int64_t kMostPartialSums = int64_t(32) << 20, kParts = 32;
  using Space = shapes::Workspace;
  auto aligned = [&](const Dims &dims) { return (TensorType{shape.dtype, dims}.numBytes() + 255) / 256 * 256; };
  int64_t sums = pass == ConvPass::weight
                     ? std::min(kMostPartialSums, Space::times(kParts, TensorType{DType::f32, weight()}.numBytes()))
                     : 0;
  return Space::sum(aligned(input()), aligned(weight()), aligned(output()), sums, 256);
}

} // namespace zc::cuda
