//===- Windows.h - windows of a pool or convolution, by value --------------------------===//
#pragma once

#include "base/HostDevice.h"
#include "kernels/shapes/Windows.h"

namespace zc::cuda {

/// shapes::PlaneOrder as a kernel's argument.
struct PlaneOrder {
  int64_t channels;
  bool channelsLast;

  PlaneOrder(const shapes::PlaneOrder &order) : channels(order.channels), channelsLast(order.channelsLast) {}
  ZC_HD int64_t step() const { return channelsLast ? channels : 1; }
  /// Where plane `p` of N * C begins, of planes of `plane` elements.
  ZC_HD int64_t begin(int64_t p, int64_t plane) const {
    return channelsLast ? p / channels * plane * channels + p % channels : p * plane;
  }
  /// The plane, and where in it, of element `i` of the tensor.
  struct Place {
    int64_t plane, element;
  };
  ZC_HD Place placeOf(int64_t i, int64_t plane) const {
    if (!channelsLast)
      return {i / plane, i % plane};
    return {i / channels / plane * channels + i % channels, i / channels % plane};
  }
};

/// shapes::Windows as a kernel's argument.
struct Windows {
  int rank;
  int64_t inPlane, outPlane, taps;
  int64_t in[shapes::kMaxRank], out[shapes::kMaxRank], kernel[shapes::kMaxRank];
  int64_t strides[shapes::kMaxRank], dilations[shapes::kMaxRank], low[shapes::kMaxRank];

  explicit Windows(const shapes::Windows &w)
      : rank(static_cast<int>(w.in.size())), inPlane(w.inPlane), outPlane(w.outPlane), taps(w.taps) {
    for (size_t d = 0; d < w.in.size(); ++d) {
      in[d] = w.in[d];
      out[d] = w.out[d];
      kernel[d] = w.kernel[d];
      strides[d] = w.strides[d];
      dilations[d] = w.dilations[d];
      low[d] = w.low[d];
    }
  }

  /// What tap `tap` of window `window` reads, in its plane; -1 outside.
  ZC_HD int64_t readBy(int64_t window, int64_t tap) const {
    int64_t position = 0, step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      int64_t at = window % out[d] * strides[d] - low[d] + tap % kernel[d] * dilations[d];
      if (at < 0 || at >= in[d])
        return -1;
      position += at * step;
      step *= in[d];
      window /= out[d];
      tap /= kernel[d];
    }
    return position;
  }
  /// The window of which tap `tap` reads `position`; -1 for none. Windows grow as taps fall.
  ZC_HD int64_t reading(int64_t position, int64_t tap) const {
    int64_t window = 0, step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      int64_t first = position % in[d] + low[d] - tap % kernel[d] * dilations[d];
      if (first < 0 || first % strides[d] != 0 || first / strides[d] >= out[d])
        return -1;
      window += first / strides[d] * step;
      step *= out[d];
      position /= in[d];
      tap /= kernel[d];
    }
    return window;
  }
};

} // namespace zc::cuda
