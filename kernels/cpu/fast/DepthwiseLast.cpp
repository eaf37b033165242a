// conv_weight_grad of depthwise convolutions (a filter for each channel) on channels-last tensors, for which oneDNN 2.6
// rearranges both or takes 1 to 12 % of what a core computes. Two vectors of channels at a time: the sums of a row of
// taps stay in registers while a row of windows passes. A channel's sum has one order whoever computes it, windows of a
// row, then rows and images, so that results depend neither on threads nor on how many lanes a vector has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/DepthwiseLast.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>

#ifndef ZC_DEPTHWISE_PLANE
#define ZC_DEPTHWISE_PLANE
namespace zc::cpu {
/// Tap t of window o reads o * stride - low + t * dilation.
struct DepthwiseAxis {
  int64_t in, out, kernel, stride, dilation, low;

  bool has(int64_t at) const { return at >= 0 && at < in; }
  /// The same windows, without their first taps.
  DepthwiseAxis from(int64_t tap) const { return {in, out, kernel - tap, stride, dilation, low - tap * dilation}; }
};
/// Of one dimension: planes of one row.
struct DepthwisePlane {
  int64_t batch, channels;
  DepthwiseAxis rows, columns;

  int64_t taps() const { return rows.kernel * columns.kernel; }
};
constexpr int64_t kMostTaps = 64, kGroupChannels = 64; ///< of a group's sums, 16 KB
} // namespace zc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// sums[t * kGroupChannels + channel] += the sum over windows [begin, end), whose taps all lie inside, of g times tap
/// t's element, for `count` channels of a row of windows and one of the input, elements n apart: of kVectors whole
/// vectors, or of one that is not.
template <int kTaps, int kVectors, typename T>
void addWhole(const T *x, const T *g, const DepthwiseAxis &axis, int64_t begin, int64_t end, int64_t n, size_t count,
              float *sums) {
  const auto step = static_cast<int64_t>(lanes());
  auto get = [&](const T *p) HWY_ATTR { return kVectors > 1 ? loadVector(p) : loadPart(p, count); };
  V row[kTaps][kVectors];
  for (auto &tap : row)
    for (V &sum : tap)
      sum = hn::Zero(kF);
  x += (begin * axis.stride - axis.low) * n;
  for (int64_t o = begin; o < end; ++o, x += axis.stride * n) {
    V grad[kVectors];
    for (int v = 0; v < kVectors; ++v)
      grad[v] = get(g + o * n + v * step);
    for (int t = 0; t < kTaps; ++t)
      for (int v = 0; v < kVectors; ++v)
        row[t][v] = hn::MulAdd(grad[v], get(x + t * axis.dilation * n + v * step), row[t][v]);
  }
  for (int t = 0; t < kTaps; ++t)
    for (int v = 0; v < kVectors; ++v) {
      float *to = sums + t * kGroupChannels + v * step;
      const size_t part = kVectors > 1 ? lanes() : count;
      storePart(hn::Add(loadPart(to, part), row[t][v]), to, part);
    }
}
/// The same of windows [begin, end), of which some taps lie outside.
template <typename T>
void addBorder(const T *x, const T *g, const DepthwiseAxis &axis, int taps, int64_t begin, int64_t end, int64_t n,
               size_t count, float *sums) {
  for (int64_t o = begin; o < end; ++o)
    for (int64_t t = 0; t < taps; ++t)
      if (const int64_t at = o * axis.stride - axis.low + t * axis.dilation; axis.has(at))
        forVectors(0, static_cast<int64_t>(count), [&](int64_t c, size_t part) HWY_ATTR {
          float *to = sums + t * kGroupChannels + c;
          storePart(hn::MulAdd(loadPart(g + o * n + c, part), loadPart(x + at * n + c, part), loadPart(to, part)), to,
                    part);
        });
}

/// The first kTaps of an axis; as many channels at a time as registers have room for.
template <int kTaps, typename T>
void addChannels(const T *x, const T *g, const DepthwiseAxis &axis, int64_t n, size_t count, float *sums) {
  const int64_t room = axis.in - 1 + axis.low - (kTaps - 1) * axis.dilation;
  const int64_t end = room < 0 ? 0 : std::min(axis.out, room / axis.stride + 1);
  const int64_t begin = std::min(end, axis.low <= 0 ? 0 : (axis.low + axis.stride - 1) / axis.stride);
  addBorder(x, g, axis, kTaps, 0, begin, n, count, sums);
  size_t c = 0;
  for (; begin < end && c + 2 * lanes() <= count; c += 2 * lanes())
    addWhole<kTaps, 2>(x + c, g + c, axis, begin, end, n, 0, sums + c);
  for (; begin < end && c < count; c += lanes())
    addWhole<kTaps, 1>(x + c, g + c, axis, begin, end, n, std::min(lanes(), count - c), sums + c);
  addBorder(x, g, axis, kTaps, end, axis.out, n, count, sums);
}
template <typename T>
void addTaps(const T *x, const T *g, const DepthwiseAxis &axis, int64_t n, size_t count, float *sums) {
  for (int64_t t = 0, taps = 0; t < axis.kernel; t += taps) {
    const DepthwiseAxis rest = axis.from(t);
    float *to = sums + t * kGroupChannels;
    if (rest.kernel >= 7)
      taps = 7, addChannels<7>(x, g, rest, n, count, to);
    else if (rest.kernel >= 5)
      taps = 5, addChannels<5>(x, g, rest, n, count, to);
    else if (rest.kernel >= 3)
      taps = 3, addChannels<3>(x, g, rest, n, count, to);
    else
      taps = 1, addChannels<1>(x, g, rest, n, count, to);
  }
}

/// The filters of channels [first, last), which one thread has.
template <typename T>
void weightGrad(const T *x, const T *g, T *weight, const DepthwisePlane &p, int64_t first, int64_t last) {
  HWY_ALIGN float sums[kMostTaps * kGroupChannels];
  const int64_t n = p.channels, taps = p.taps();
  for (int64_t c = first; c < last; c += kGroupChannels) {
    const int64_t count = std::min(kGroupChannels, last - c);
    std::fill(sums, sums + taps * kGroupChannels, 0.0f);
    for (int64_t row = 0; row < p.batch * p.rows.out; ++row) {
      const int64_t image = row / p.rows.out, o = row % p.rows.out;
      for (int64_t t = 0; t < p.rows.kernel; ++t)
        if (const int64_t at = o * p.rows.stride - p.rows.low + t * p.rows.dilation; p.rows.has(at))
          addTaps(x + (image * p.rows.in + at) * p.columns.in * n + c, g + row * p.columns.out * n + c, p.columns, n,
                  static_cast<size_t>(count), sums + t * p.columns.kernel * kGroupChannels);
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t t = 0; t < taps; ++t)
        weight[(c + i) * taps + t] = store<T>(sums[t * kGroupChannels + i]);
  }
}

void depthwiseWeightGrad(DType type, const void *x, const void *g, void *weight, const DepthwisePlane &p, int64_t first,
                         int64_t last) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    weightGrad(static_cast<const T *>(x), static_cast<const T *>(g), static_cast<T *>(weight), p, first, last);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/Windows.h"

namespace zc::cpu {
HWY_EXPORT(depthwiseWeightGrad);

namespace {

DepthwiseAxis axisOf(const Windows &w, size_t d) {
  return {w.in[d], w.out[d], w.kernel[d], w.strides[d], w.dilations[d], w.low[d]};
}
DepthwisePlane planeOf(const ConvShape &s) {
  const Windows &w = s.windows;
  const bool hasRows = w.in.size() == 2;
  return {s.batch, s.inChannels, hasRows ? axisOf(w, 0) : DepthwiseAxis{1, 1, 1, 1, 1, 0}, axisOf(w, hasRows ? 1 : 0)};
}
bool isDeclined(const ConvShape &s) {
  const Windows &w = s.windows;
  return !s.channelsLast || !isFast(s.dtype) || s.inChannels < 8 || s.groups != s.inChannels ||
         s.outChannels != s.inChannels || w.in.size() > 2 || w.taps > kMostTaps || s.isEmpty() || w.taps == 0;
}

} // namespace

void addFastDepthwiseLast(KernelRegistry &registry) {
  registry.add("conv_weight_grad", [](const KernelSpec &spec) -> Prepared {
    Result<ConvShape> read = readConvWeightGrad(spec);
    ZC_RETURN_IF_ERROR(read.status());
    if (isDeclined(*read))
      return decline();
    const int threads = threadsFor(spec.threads, read->batch * read->inChannels * read->windows.outPlane);
    return makeKernel([s = *read, plane = planeOf(*read), threads](void *const *operands, const StepContext &) {
      parallelRanges(threads, s.inChannels, 8, [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(depthwiseWeightGrad)
        (s.dtype, operands[0], operands[1], operands[2], plane, begin, end);
      });
    });
  });
}

} // namespace zc::cpu
#endif // HWY_ONCE
