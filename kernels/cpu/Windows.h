//===- Windows.h - specs of convolutions, pools and batch norm, checked and read ---===//
//
// A reference kernel and its fast version accept the same specs: both read them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Support.h"

namespace zc::cpu {

/// Windows sliding over the spatial dimensions of tensors [N, C, d...]. Tap t of window o reads the element
/// o * strides - low + t * dilations, where that lies inside.
struct Windows {
  Dims in, out, kernel, strides, dilations, low;
  int64_t inPlane, outPlane, taps; ///< elements of a plane, windows, elements of a window

  /// For each window, for each tap (both row-major): the element's position in its plane, or -1 outside.
  std::vector<int64_t> table() const;
  /// Taps [begin, end) of window `o` along dimension `d` that lie inside.
  std::pair<int64_t, int64_t> inside(size_t d, int64_t o) const;
};

/// The forward convolution [N, C, in...] -> [N, M, out...] with weight [M, C / groups, kernel...], whichever of the
/// three tensors the kernel computes.
/// A plane of sums in double to which the taps of all windows give: what runs a window operation backwards.
class PlaneSums {
public:
  explicit PlaneSums(const Windows &w) : table(w.table()), taps(w.taps), sums(static_cast<size_t>(w.inPlane)) {}
  void begin(double value = 0) { std::fill(sums.begin(), sums.end(), value); }
  double &operator[](int64_t at) { return sums[static_cast<size_t>(at)]; }
  /// Adds value(window, tap), windows in order and the taps of each.
  template <typename Fn> void add(Fn value) {
    for (size_t i = 0; i < table.size(); ++i)
      if (table[i] >= 0)
        sums[static_cast<size_t>(table[i])] += value(static_cast<int64_t>(i) / taps, static_cast<int64_t>(i) % taps);
  }
  template <typename T> void store(T *plane) const {
    for (size_t i = 0; i < sums.size(); ++i)
      plane[i] = storeSum<T>(sums[i]);
  }

private:
  std::vector<int64_t> table;
  int64_t taps;
  std::vector<double> sums;
};

struct ConvShape {
  DType dtype;
  int64_t batch, inChannels, outChannels, groups;
  bool hasBias;
  Windows windows;
  Dims high;

  int64_t inPerGroup() const { return inChannels / groups; }
  int64_t outPerGroup() const { return outChannels / groups; }
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
  Windows windows;
};
/// Operands: input, result, indices.
Result<PoolShape> readMaxPool(const KernelSpec &spec);
/// Operands: grad, indices, result. Of the windows only the planes' sizes are known.
Result<PoolShape> readMaxPoolGrad(const KernelSpec &spec);
/// Operands: input, result.
Result<PoolShape> readSumPool(const KernelSpec &spec);
/// Operands: grad, result.
Result<PoolShape> readSumPoolGrad(const KernelSpec &spec);

/// Tensors [batch, channels, inner].
struct BatchNormShape {
  DType dtype, stat;
  int64_t batch, channels, inner;
  double epsilon;
};
/// Operands: input, scale, bias, result, mean, variance.
Result<BatchNormShape> readBatchNorm(const KernelSpec &spec);
/// Operands: grad, input, scale, mean, variance, d_input, d_scale, d_bias.
Result<BatchNormShape> readBatchNormGrad(const KernelSpec &spec);
/// Operands: input, scale, bias, mean, variance, result.
Result<BatchNormShape> readBatchNormApply(const KernelSpec &spec);

} // namespace zc::cpu
