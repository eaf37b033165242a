// How much workspace oneDNN's convolutions get: what they ask for is known on the machine only.
#include "kernels/cpu/Tiles.h"

#include <algorithm>

namespace zc::cpu {
namespace {

/// Does oneDNN compute it on blocked layouts with AVX2 and later, and not as a product of matrices?
bool isDirect(const ConvShape &s) {
  auto isOne = [](int64_t amount) { return amount == 1; };
  auto isSmall = [](int64_t size) { return size <= 7; };
  const Windows &w = s.windows;
  return (s.groups == 1 || (s.inPerGroup() == 1 && s.outPerGroup() == 1)) &&
         std::all_of(w.dilations.begin(), w.dilations.end(), isOne) &&
         std::all_of(w.kernel.begin(), w.kernel.end(), isSmall);
}

/// What oneDNN works in, by what its kernels of 2.6 were seen to ask for: per thread, with 16-bit types, sums of an
/// image in fp32 and a copy of it, of 1x1 windows with strides an image without what they skip, and the columns of one
/// where it multiplies matrices; once, sums of the weights in fp32 per group of threads, few where the weights are
/// large.
int64_t convScratch(const ConvShape &s, bool isBf16, int64_t paddedIn, int64_t paddedOut, int64_t weights) {
  const Windows &w = s.windows;
  const int64_t in = Workspace::times(paddedIn, w.inPlane), out = Workspace::times(paddedOut, w.outPlane);
  int64_t image = Workspace::times(4, std::max(in, out));
  int64_t copies = Workspace::times(2, Workspace::sum(in, out));
  bool skips = w.taps == 1 && w.inPlane > w.outPlane;
  int64_t strided = skips ? Workspace::times(4, Workspace::sum(paddedIn, paddedOut), w.outPlane) : 0;
  int64_t columns = std::min(Workspace::times(4, s.inPerGroup(), w.outPlane, w.taps), int64_t(4) << 20);
  int64_t tile = Workspace::sum(isBf16 ? Workspace::sum(image, copies) : strided, isDirect(s) ? 0 : columns);
  int64_t sums =
      std::min(Workspace::times(8, 4, weights), Workspace::sum(Workspace::times(4, weights), int64_t(8) << 20));
  return Workspace::sum(int64_t(256) << 10, columns, sums, Workspace::times(tile, tilesFor(tile, 16)));
}

/// Where windows are larger than images, or dilated, oneDNN's gradient of weights with AVX2 is a product of matrices
/// that has weights four times in fp32, per thread.
int64_t productSums(const ConvShape &s, int64_t weights) {
  const Windows &w = s.windows;
  for (size_t i = 0; i < w.in.size(); ++i)
    if (w.in[i] < w.kernel[i] || w.dilations[i] > 1)
      return Workspace::times(4, 4, weights);
  return 0;
}

} // namespace

int64_t convAllowance(const ConvShape &s, bool isWeightGrad) {
  auto padded = [](int64_t channels) { return (channels + 15) / 16 * 16; };
  int64_t in = padded(s.inChannels), out = padded(s.outChannels);
  bool isDepthwise = s.inPerGroup() == 1 && s.groups > 1;
  int64_t filters = isDepthwise ? Workspace::times(padded(s.groups), s.outPerGroup())
                                : Workspace::times(s.groups, padded(s.inPerGroup()), padded(s.outPerGroup()));
  int64_t weights = Workspace::times(filters, s.windows.taps);
  int64_t input = Workspace::times(s.batch, in, s.windows.inPlane);
  int64_t output = Workspace::times(s.batch, out, s.windows.outPlane);
  auto computedIn = [&](DType type) {
    int64_t total = Workspace::sum(convScratch(s, type == DType::bf16, in, out, weights),
                                   isWeightGrad ? productSums(s, weights) : 0);
    for (int64_t elements : {input, output, weights, out + in})
      total = Workspace::sum(total, Workspace::bytesOf(elements, static_cast<size_t>(sizeOf(type))));
    return total;
  };
  int64_t total = computedIn(DType::f32);
  if (s.dtype != DType::f32)
    total = Workspace::sum(total, Workspace::bytesOf<float>(std::max({input, output, weights})));
  return std::max(total, s.dtype == DType::bf16 ? computedIn(DType::bf16) : 0);
}

} // namespace zc::cpu
