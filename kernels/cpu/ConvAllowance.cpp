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

int64_t padded(int64_t channels) { return (channels + 15) / 16 * 16; }
int64_t paddedWeights(const ConvShape &s) {
  bool isDepthwise = s.inPerGroup() == 1 && s.groups > 1;
  int64_t filters = isDepthwise ? Workspace::times(padded(s.groups), s.outPerGroup())
                                : Workspace::times(s.groups, padded(s.inPerGroup()), padded(s.outPerGroup()));
  return Workspace::times(filters, s.windows.taps);
}

bool isBeyondImage(const Windows &w) {
  for (size_t i = 0; i < w.in.size(); ++i)
    if (w.in[i] < w.kernel[i])
      return true;
  return false;
}

/// Where windows are larger than images, or dilated, oneDNN's gradient of weights with AVX2 is a product of matrices
/// that has weights four times in fp32, per thread.
int64_t productSums(const ConvShape &s, int64_t weights) {
  const Windows &w = s.windows;
  const bool isDilated = std::any_of(w.dilations.begin(), w.dilations.end(), [](int64_t d) { return d > 1; });
  return isBeyondImage(w) || isDilated ? Workspace::times(4, 4, weights) : 0;
}

} // namespace

bool ConvColumns::serves(const ConvShape &s, bool hasAvx512) {
  // On a Zen 5 oneDNN's takes 1.2 to 6 times as long within these, 0.3 to 1.5 times as long beyond them.
  constexpr int64_t fewPlaces = 128, largeWeight = 1 << 18, mostPlaces = 4096;
  const int64_t places = Workspace::times(s.batch, s.windows.outPlane);
  const int64_t weights = Workspace::times(s.inChannels, s.outChannels, s.windows.taps);
  return s.groups == 1 && !s.isEmpty() && isBeyondImage(s.windows) && places <= mostPlaces &&
         (!hasAvx512 || (places <= fewPlaces && weights >= largeWeight));
}

ConvColumns::ConvColumns(const ConvShape &s)
    : places(Workspace::times(s.batch, s.windows.outPlane)), columns(Workspace::times(s.inChannels, s.windows.taps)) {
  constexpr int64_t ofBlock = 1 << 14, most = 8 * kTileColumns; // fp32 elements, which leave room in a second cache
  width = std::min(std::clamp(ofBlock / places / kTileColumns * kTileColumns, kTileColumns, most),
                   roundUp(columns, kTileColumns));
  parts = quotientUp(columns, width);
  grads = Workspace::times(roundUp(s.outChannels, kTileRows), places);
  floats = (places + kTileRows) * width + places * kTileColumns;
  offsets = s.windows.outPlane * kTileColumns;
}

int64_t ConvColumns::bytes(const ConvShape &s) const {
  return Workspace::sum(s.windows.tableBytes(), Workspace::bytesOf<float>(grads),
                        Workspace::bytesOf<float>(floats * tiles()), Workspace::bytesOf<int64_t>(offsets * tiles()));
}

int64_t convKept(const ConvShape &s) {
  if (!isFast(s.dtype) || s.isEmpty())
    return 0;
  const DType type = s.dtype == DType::bf16 ? DType::bf16 : DType::f32;
  return Workspace::bytesOf(paddedWeights(s), static_cast<size_t>(sizeOf(type)));
}

int64_t convAllowance(const ConvShape &s, bool isWeightGrad) {
  const int64_t ofColumns = isWeightGrad && ConvColumns::serves(s, false) ? ConvColumns(s).bytes(s) : 0;
  if (isWeightGrad && ConvColumns::serves(s, true)) // on each CPU
    return ofColumns;
  int64_t in = padded(s.inChannels), out = padded(s.outChannels), weights = paddedWeights(s);
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
  return std::max({total, ofColumns, s.dtype == DType::bf16 ? computedIn(DType::bf16) : 0});
}

} // namespace zc::cpu
