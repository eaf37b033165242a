#include "kernels/shapes/Windows.h"
#include "kernels/shapes/ModelOrder.h"

namespace zc::shapes {

//===-- windows ------------------------------------------------------------===//

std::pair<int64_t, int64_t> Windows::inside(size_t d, int64_t o) const {
  int64_t first = o * strides[d] - low[d], step = dilations[d];
  int64_t begin = first >= 0 ? 0 : (-first + step - 1) / step;
  int64_t end = first >= in[d] ? 0 : (in[d] - 1 - first) / step + 1;
  return {std::min(begin, kernel[d]), std::max(std::min(end, kernel[d]), std::min(begin, kernel[d]))};
}

void Windows::fillTable(int64_t *positions) const {
  std::array<int64_t, kMaxRank> window{}, tap{}; // runs allocate nothing
  auto advance = [](auto &index, const Dims &size) {
    for (size_t d = size.size(); d-- > 0 && ++index[d] == size[d];)
      index[d] = 0;
  };
  for (int64_t o = 0; o < outPlane; ++o, advance(window, out))
    for (int64_t t = 0; t < taps; ++t, advance(tap, kernel)) {
      int64_t position = 0;
      for (size_t d = 0; d < out.size() && position >= 0; ++d) {
        int64_t at = window[d] * strides[d] - low[d] + tap[d] * dilations[d];
        position = at >= 0 && at < in[d] ? position * in[d] + at : -1;
      }
      *positions++ = position;
    }
}

constexpr int64_t kMostWindow = int64_t(1) << 31;

/// Spatial dimensions, attributes and sizes that fit together; the amounts are small enough to compute with.
static bool readWindows(const KernelSpec &spec, const Dims &input, const Dims &output, Dims kernel, Windows &windows) {
  if (input.size() < 3 || output.size() != input.size() || input[0] != output[0])
    return false;
  windows.in.assign(input.begin() + 2, input.end());
  windows.out.assign(output.begin() + 2, output.end());
  windows.kernel = std::move(kernel);
  windows.strides = spec.getInts("strides");
  windows.dilations = spec.getInts("dilations");
  windows.low = spec.getInts("low");
  size_t spatial = windows.in.size();
  constexpr int64_t limit = kMostWindow;
  for (const Dims *list : {&windows.kernel, &windows.strides, &windows.dilations}) {
    if (list->size() != spatial)
      return false;
    for (int64_t amount : *list)
      if (amount < 1 || amount >= limit)
        return false;
  }
  if (windows.low.size() != spatial)
    return false;
  for (int64_t amount : windows.low)
    if (amount <= -limit || amount >= limit)
      return false;
  for (int64_t size : windows.out)
    if (size >= limit)
      return false;
  windows.inPlane = product(windows.in, 0, spatial);
  windows.outPlane = product(windows.out, 0, spatial);
  windows.taps = 1;
  for (int64_t k : windows.kernel)
    if (__builtin_mul_overflow(windows.taps, k, &windows.taps))
      return false;
  // Entries of table().
  constexpr int64_t mostEntries = int64_t(1) << 40;
  int64_t entries = 0;
  return !__builtin_mul_overflow(windows.outPlane, windows.taps, &entries) && entries <= mostEntries;
}

bool isChannelsLast(const KernelSpec &spec) { return spec.has("channels_last"); }

Dims inModelOrder(const KernelSpec &spec, size_t operand) {
  Dims dims = spec.operands[operand].dims;
  if (isChannelsLast(spec) && dims.size() > 2)
    std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return dims;
}

//===-- convolutions -------------------------------------------------------===//

/// `input`, `weight`, `output`: which operand has the shape of the forward convolution's tensor.
static Result<ConvShape> readConvolution(const KernelSpec &spec, size_t maxInputs, size_t input, size_t weight,
                                         size_t output, size_t biasOf) {
  ConvShape shape{};
  shape.hasBias = spec.numInputs == 3;
  shape.channelsLast = isChannelsLast(spec);
  auto oneType = [&] {
    for (const TensorType &type : spec.operands)
      if (type.dtype != spec.operands[0].dtype || !isComputeFloat(type.dtype))
        return false;
    return true;
  };
  auto matches = [&] {
    const Dims &w = spec.operands[weight].dims;
    const Dims x = inModelOrder(spec, input), y = inModelOrder(spec, output);
    shape.groups = spec.getInt("groups", 1);
    shape.high = spec.getInts("high");
    if (x.size() < 3 || w.size() != x.size() || shape.groups < 1 || x[1] % shape.groups || w[0] % shape.groups ||
        w[1] != x[1] / shape.groups || !readWindows(spec, x, y, Dims(w.begin() + 2, w.end()), shape.windows) ||
        y[1] != w[0] || shape.high.size() != shape.windows.in.size())
      return false;
    shape.batch = x[0];
    shape.inChannels = x[1];
    shape.outChannels = y[1];
    const Windows &windows = shape.windows;
    for (size_t d = 0; d < shape.high.size(); ++d) {
      if (shape.high[d] <= -kMostWindow || shape.high[d] >= kMostWindow)
        return false;
      int64_t padded = windows.low[d] + windows.in[d] + shape.high[d],
              extent = windows.dilations[d] * (windows.kernel[d] - 1) + 1;
      if (padded < extent || (padded - extent) / windows.strides[d] + 1 != windows.out[d])
        return false;
    }
    return true;
  };
  auto biasFits = [&] {
    return !shape.hasBias || spec.operands[2].dims == Dims{biasOf == input ? shape.inChannels : shape.outChannels};
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(2, maxInputs, 1, 1)
                         .that(oneType, "f32, bf16 or f64 of one type")
                         .that(matches, "shapes and windows of a convolution")
                         .that(biasFits, "a bias per channel")
                         .done());
  shape.dtype = spec.operands[0].dtype;
  return shape;
}

Result<ConvShape> readConv(const KernelSpec &spec) {
  size_t result = spec.numInputs;
  return readConvolution(spec, 3, 0, 1, result, result);
}
Result<ConvShape> readConvTranspose(const KernelSpec &spec) {
  size_t result = spec.numInputs;
  return readConvolution(spec, 3, result, 1, 0, result);
}
Result<ConvShape> readConvWeightGrad(const KernelSpec &spec) { return readConvolution(spec, 2, 0, 2, 1, 1); }

//===-- pools --------------------------------------------------------------===//

/// `full`, `pooled`: operands of the plane's and of the windows' shape; `indices`: none, or the positions' operand.
static Result<PoolShape> readPool(const KernelSpec &spec, size_t inputs, size_t outputs, size_t full, size_t pooled,
                                  std::optional<size_t> indices, bool hasWindows) {
  PoolShape shape{};
  auto matches = [&] {
    const DType type = spec.operands[full].dtype;
    const Dims x = inModelOrder(spec, full), y = inModelOrder(spec, pooled);
    if (type != spec.operands[pooled].dtype || !isComputeFloat(type) || x.size() < 3 || y.size() != x.size() ||
        x[1] != y[1] || x[0] != y[0])
      return false;
    shape.planes = x[0] * x[1];
    shape.order = {x[1], isChannelsLast(spec)};
    if (hasWindows)
      return readWindows(spec, x, y, spec.getInts("kernel"), shape.windows);
    shape.windows.inPlane = product(x, 2, x.size());
    shape.windows.outPlane = product(y, 2, y.size());
    return true;
  };
  auto indexed = [&] {
    if (!indices)
      return true;
    const TensorType &index = spec.operands[*indices];
    shape.index = index.dtype;
    return index.dims == spec.operands[pooled].dims && (shape.index == DType::i32 || shape.index == DType::i64);
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(inputs, outputs)
                         .that(matches, "f32, bf16 or f64 planes and their windows")
                         .that(indexed, "i32 or i64 indices of the windows")
                         .done());
  shape.dtype = spec.operands[full].dtype;
  return shape;
}

Result<PoolShape> readMaxPool(const KernelSpec &spec) { return readPool(spec, 1, 2, 0, 1, 2, true); }
Result<PoolShape> readMaxPoolGrad(const KernelSpec &spec) { return readPool(spec, 2, 1, 2, 0, 1, false); }
Result<PoolShape> readSumPool(const KernelSpec &spec) { return readPool(spec, 1, 1, 0, 1, std::nullopt, true); }
Result<PoolShape> readSumPoolGrad(const KernelSpec &spec) { return readPool(spec, 1, 1, 1, 0, std::nullopt, true); }

//===-- batch norm ---------------------------------------------------------===//

/// `same`: operands of the input's type; `perChannel`: of its element type; `stats`: statistics.
static Result<BatchNormShape> readNorm(const KernelSpec &spec, size_t inputs, size_t outputs, std::vector<size_t> same,
                                       std::vector<size_t> perChannel, std::vector<size_t> stats) {
  auto matches = [&] {
    const TensorType &x = spec.operands[same[0]];
    if (!isComputeFloat(x.dtype) || x.dims.size() < 2)
      return false;
    const int64_t channels = inModelOrder(spec, same[0])[1];
    for (size_t i : same)
      if (!(spec.operands[i] == x))
        return false;
    for (size_t i : perChannel)
      if (!(spec.operands[i] == TensorType{x.dtype, {channels}}))
        return false;
    for (size_t i : stats)
      if (!(spec.operands[i] == TensorType{x.dtype == DType::f64 ? DType::f64 : DType::f32, {channels}}))
        return false;
    return true;
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(inputs, outputs)
                         .that(matches, "tensors [N, C, ...] of f32, bf16 or f64 and C elements per channel")
                         .that([&] { return spec.getReal("epsilon", -1) >= 0; }, "an epsilon that is not negative")
                         .done());
  const DType type = spec.operands[same[0]].dtype;
  const Dims x = inModelOrder(spec, same[0]);
  const int64_t inner = product(x, 2, x.size());
  return BatchNormShape{type,
                        type == DType::f64 ? DType::f64 : DType::f32,
                        x[0],
                        x[1],
                        inner,
                        spec.getReal("epsilon", 0),
                        isChannelsLast(spec) || inner == 1};
}

Result<BatchNormShape> readBatchNorm(const KernelSpec &spec) { return readNorm(spec, 3, 3, {0, 3}, {1, 2}, {4, 5}); }
Result<BatchNormShape> readBatchNormGrad(const KernelSpec &spec) {
  return readNorm(spec, 5, 3, {1, 0, 5}, {2, 6, 7}, {3, 4});
}
Result<BatchNormShape> readBatchNormStatistics(const KernelSpec &spec) {
  return readNorm(spec, 3, 4, {0}, {1, 2}, {3, 4, 5, 6});
}
Result<BatchNormShape> readBatchNormGradSums(const KernelSpec &spec) {
  return readNorm(spec, 5, 5, {1, 0}, {2, 5, 6}, {3, 4, 7, 8, 9});
}
Result<BatchNormShape> readBatchNormApply(const KernelSpec &spec) {
  return readNorm(spec, 5, 1, {0, 5}, {1, 2, 3, 4}, {});
}

Status checkMovingAverage(const KernelSpec &spec) {
  auto alike = [&] {
    return spec.operands[1] == spec.operands[0] && spec.operands[2] == spec.operands[0] &&
           isComputeFloat(spec.operands[0].dtype);
  };
  return Check(spec).counts(2, 1).that(alike, "f32, bf16 or f64 of one type").done();
}

} // namespace zc::shapes
