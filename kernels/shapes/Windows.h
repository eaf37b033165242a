//===- Windows.h - specs of convolutions, pools and batch norm, checked and read ---===//
//
// A reference kernel and its fast version accept the same specs: both read them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/shapes/Support.h"

namespace zc::shapes {

/// How the planes of an activation [N, C, d...] lie in memory: one after the other, or, under the attribute
/// `channels_last` (then its type is [N, d..., C]), element by element side by side.
struct PlaneOrder {
  int64_t channels = 0;
  bool channelsLast = false;

  /// Where plane `p` of N * C begins, of planes of `plane` elements.
  int64_t begin(int64_t p, int64_t plane) const {
    return channelsLast ? p / channels * plane * channels + p % channels : p * plane;
  }
  /// From an element of a plane to its next one.
  int64_t step() const { return channelsLast ? channels : 1; }
};

/// Windows sliding over the spatial dimensions of tensors [N, C, d...]. Tap t of window o reads the element
/// o * strides - low + t * dilations, where that lies inside.
struct Windows {
  Dims in, out, kernel, strides, dilations, low;
  int64_t inPlane, outPlane, taps; ///< elements of a plane, windows, elements of a window

  /// For each window, for each tap (both row-major): the element's position in its plane, or -1 outside. Fills
  /// `positions`, outPlane * taps elements.
  void fillTable(int64_t *positions) const;
  /// What that takes.
  Piece<int64_t> takeTable(Workspace &workspace) const { return workspace.take<int64_t>(outPlane * taps); }
  int64_t tableBytes() const { return Workspace::bytesOf<int64_t>(Workspace::times(outPlane, taps)); }
  /// Taps [begin, end) of window `o` along dimension `d` that lie inside.
  std::pair<int64_t, int64_t> inside(size_t d, int64_t o) const;
};

/// A plane of sums in double to which the taps of all windows give: what runs a window operation backwards.
class PlaneSums {
public:
  /// `sums` and `table` are the pieces' memory; null table: add() is not called.
  PlaneSums(const Windows &w, double *sums, int64_t *table = nullptr)
      : sums(sums), table(table), plane(w.inPlane), taps(w.taps), entries(table ? w.outPlane * w.taps : 0) {
    if (table)
      w.fillTable(table);
  }
  void begin(double value = 0) { std::fill(sums, sums + plane, value); }
  double &operator[](int64_t at) { return sums[at]; }
  /// Adds value(window, tap), windows in order and the taps of each.
  template <typename Fn> void add(Fn value) {
    for (int64_t i = 0; i < entries; ++i)
      if (table[i] >= 0)
        sums[table[i]] += value(i / taps, i % taps);
  }
  template <typename T> void store(T *out, int64_t step) const {
    for (int64_t i = 0; i < plane; ++i)
      out[i * step] = storeSum<T>(sums[i]);
  }

private:
  double *sums;
  int64_t *table;
  int64_t plane, taps, entries;
};

/// The forward convolution [N, C, in...] -> [N, M, out...] with weight [M, C / groups, kernel...], whichever of the
/// three tensors the kernel computes.
struct ConvShape {
  DType dtype;
  int64_t batch, inChannels, outChannels, groups;
  bool hasBias, channelsLast;
  Windows windows;
  Dims high;

  int64_t inPerGroup() const { return inChannels / groups; }
  int64_t outPerGroup() const { return outChannels / groups; }
  /// Has any of the tensors no element? (The product of all extents may be beyond 64 bits.)
  bool isEmpty() const {
    return batch == 0 || inChannels == 0 || outChannels == 0 || windows.inPlane == 0 || windows.outPlane == 0;
  }
  PlaneOrder in() const { return {inChannels, channelsLast}; }
  PlaneOrder out() const { return {outChannels, channelsLast}; }
};
/// Operands: input, weight, [bias], result.
Result<ConvShape> readConv(const KernelSpec &spec);
/// Operands: input [N, M, out...], weight, [bias], result [N, C, in...].
Result<ConvShape> readConvTranspose(const KernelSpec &spec);
/// Operands: input, grad [N, M, out...], result (a weight).
Result<ConvShape> readConvWeightGrad(const KernelSpec &spec);

struct PoolShape {
  DType dtype, index; ///< index: of max_pool's positions
  int64_t planes;     ///< N * C
  PlaneOrder order;
  Windows windows;

  /// Is there no window at all? (A crafted plan's may be of any size then: it needs no workspace.)
  bool isEmpty() const { return planes == 0 || windows.outPlane == 0; }
};
/// Operands: input, result, indices.
Result<PoolShape> readMaxPool(const KernelSpec &spec);
/// Operands: grad, indices, result. Of the windows only the planes' sizes are known.
Result<PoolShape> readMaxPoolGrad(const KernelSpec &spec);
/// Operands: input, result.
Result<PoolShape> readSumPool(const KernelSpec &spec);
/// Operands: grad, result.
Result<PoolShape> readSumPoolGrad(const KernelSpec &spec);

/// Tensors [batch, channels, inner], or [batch, inner, channels]; what is both is channels last.
struct BatchNormShape {
  DType dtype, stat;
  int64_t batch, channels, inner;
  double epsilon;
  bool channelsLast;

  PlaneOrder order() const { return {channels, channelsLast}; }
};
/// Operands: input, scale, bias, result, mean, variance.
Result<BatchNormShape> readBatchNorm(const KernelSpec &spec);
/// Operands: grad, input, scale, mean, variance, d_input, d_scale, d_bias.
Result<BatchNormShape> readBatchNormGrad(const KernelSpec &spec);
/// Operands: input, scale, bias, mean, variance, factor, shift.
Result<BatchNormShape> readBatchNormStatistics(const KernelSpec &spec);
/// Operands: grad, input, scale, mean, variance, d_scale, d_bias, factor, mean_grad, slope.
Result<BatchNormShape> readBatchNormGradSums(const KernelSpec &spec);
/// Operands: input, scale, bias, mean, variance, result.
Result<BatchNormShape> readBatchNormApply(const KernelSpec &spec);
Status checkMovingAverage(const KernelSpec &spec);

} // namespace zc::shapes
