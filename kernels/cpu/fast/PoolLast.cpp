// max_pool, sum_pool and their gradients on channels-last tensors: a window's elements are rows of channels, of which a
// vector is taken at a time. Results are bit-equal to those of the other order: windows and taps come in the same one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/PoolLast.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// The largest of a window's elements and which it is, for n channels; x's elements are n apart. The first of all
/// counts, even at -inf; NaN is larger than any number.
template <typename T> void largest(const T *x, const int64_t *taps, int64_t numTaps, int64_t n, T *y, int32_t *where) {
  const I i32;
  forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
    V best = numTaps > 0 ? loadPart(x + taps[0] * n + j, c) : hn::Set(kF, -std::numeric_limits<float>::infinity());
    auto at = hn::Set(i32, numTaps > 0 ? static_cast<int32_t>(taps[0]) : -1);
    for (int64_t t = 1; t < numTaps; ++t) {
      const V value = loadPart(x + taps[t] * n + j, c);
      const M takes = hn::Or(hn::Gt(value, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(value)));
      best = hn::IfThenElse(takes, value, best);
      at = hn::IfThenElse(hn::RebindMask(i32, takes), hn::Set(i32, static_cast<int32_t>(taps[t])), at);
    }
    storePart(best, y + j, c);
    HWY_ALIGN int32_t whole[HWY_MAX_BYTES / sizeof(int32_t)];
    hn::Store(at, i32, whole);
    std::memcpy(where + j, whole, c * sizeof(int32_t));
  });
}

/// Their sum.
template <typename T> void summed(const T *x, const int64_t *taps, int64_t numTaps, int64_t n, T *y) {
  forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
    V sum = hn::Zero(kF);
    for (int64_t t = 0; t < numTaps; ++t)
      sum = hn::Add(sum, loadPart(x + taps[t] * n + j, c));
    storePart(sum, y + j, c);
  });
}

/// Adds `count` elements of g to as many of each tap's sums, `step` apart.
template <typename T>
void spread(const T *g, int64_t count, const int64_t *taps, int64_t numTaps, float *sums, int64_t step) {
  for (int64_t t = 0; t < numTaps; ++t)
    forVectors(0, count, [&](int64_t j, size_t c) HWY_ATTR {
      float *to = sums + taps[t] * step + j;
      storePart(hn::Add(loadPart(to, c), loadPart(g + j, c)), to, c);
    });
}

void largestTyped(DType type, const void *x, const int64_t *taps, int64_t numTaps, int64_t n, void *y, int32_t *where) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    largest(static_cast<const T *>(x), taps, numTaps, n, static_cast<T *>(y), where);
  });
}
void summedTyped(DType type, const void *x, const int64_t *taps, int64_t numTaps, int64_t n, void *y) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    summed(static_cast<const T *>(x), taps, numTaps, n, static_cast<T *>(y));
  });
}
void spreadTyped(DType type, const void *g, int64_t count, const int64_t *taps, int64_t numTaps, float *sums,
                 int64_t step) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    spread(static_cast<const T *>(g), count, taps, numTaps, sums, step);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(largestTyped);
HWY_EXPORT(summedTyped);
HWY_EXPORT(spreadTyped);

namespace {

/// The elements that each window has, by their positions in the plane: windows' tables of the plain kernels, packed.
class Taps {
public:
  Taps(Workspace &workspace, const Windows &w) : w(w), table(w.takeTable(workspace)) {}

  /// Before the others: the taps of each window to its front.
  int64_t *fill(void *const *operands) const {
    int64_t *positions = table.of(operands);
    w.fillTable(positions);
    for (int64_t o = 0; o < w.outPlane; ++o) {
      int64_t *row = positions + o * w.taps;
      std::fill(std::remove(row, row + w.taps, -1), row + w.taps, -1);
    }
    return positions;
  }
  /// fn(taps, how many) of window `o`.
  template <typename Fn> void of(const int64_t *positions, int64_t o, Fn fn) const {
    const int64_t *row = positions + o * w.taps;
    fn(row, std::find(row, row + w.taps, -1) - row);
  }

private:
  Windows w;
  Piece<int64_t> table;
};

bool isDeclined(const PoolShape &s) { return !s.order.channelsLast || !isFast(s.dtype) || s.isEmpty(); }
int threadsOf(const KernelSpec &spec, const PoolShape &s) {
  return threadsFor(spec.threads, s.planes * s.windows.inPlane);
}

/// The frame of the forward kernels: fn(operands, input plane's begin, window's begin, taps, how many); begins in
/// elements.
template <typename Fn> Prepared overWindows(const KernelSpec &spec, const PoolShape &s, Fn fn) {
  Workspace workspace(spec);
  return makeKernel([s, fn, taps = Taps(workspace, s.windows), threads = threadsOf(spec, s)](void *const *operands,
                                                                                             const StepContext &) {
    const int64_t *positions = taps.fill(operands);
    const int64_t n = s.order.channels, out = s.windows.outPlane;
    parallelRanges(threads, s.planes / n * out, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        taps.of(positions, i % out, [&](const int64_t *row, int64_t count) {
          fn(operands, i / out * s.windows.inPlane * n, i * n, row, count);
        });
    });
  });
}

Prepared prepareMaxPool(const KernelSpec &spec) {
  Result<PoolShape> read = readMaxPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read) || read->index != DType::i32)
    return decline();
  return overWindows(spec, *read,
                     [type = read->dtype, n = read->order.channels](void *const *operands, int64_t from, int64_t to,
                                                                    const int64_t *taps, int64_t count) {
                       HWY_DYNAMIC_DISPATCH(largestTyped)
                       (type, as<char>(operands[0]) + from * sizeOf(type), taps, count, n,
                        as<char>(operands[1]) + to * sizeOf(type), as<int32_t>(operands[2]) + to);
                     });
}

Prepared prepareSumPool(const KernelSpec &spec) {
  Result<PoolShape> read = readSumPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read))
    return decline();
  return overWindows(spec, *read,
                     [type = read->dtype, n = read->order.channels](void *const *operands, int64_t from, int64_t to,
                                                                    const int64_t *taps, int64_t count) {
                       HWY_DYNAMIC_DISPATCH(summedTyped)
                       (type, as<char>(operands[0]) + from * sizeOf(type), taps, count, n,
                        as<char>(operands[1]) + to * sizeOf(type));
                     });
}

/// The gradients' frame: some channels of an image at a time, their sums in fp32. Of f32 tensors that is the result
/// itself.
class ChannelSums {
public:
  ChannelSums(const KernelSpec &spec, Workspace &workspace, const PoolShape &s)
      : s(s), threads(std::min(threadsOf(spec, s), poolBlockTiles(s))),
        sums(workspace.take<float>(s.dtype == DType::f32 ? 0 : poolBlockTile(s) * threads)) {}

  /// add(image, first channel, how many, sums, elements from one position's sums to the next's).
  template <typename Add> void run(void *const *operands, size_t result, Add add) const {
    const int64_t n = s.order.channels, blocks = quotientUp(n, kPoolBlock);
    parallelRanges(threads, s.planes / n * blocks, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / blocks, first = i % blocks * kPoolBlock, count = std::min(kPoolBlock, n - first);
        const int64_t at = image * s.windows.inPlane * n + first;
        const bool isOwn = s.dtype != DType::f32;
        const int64_t step = isOwn ? count : n;
        float *own = isOwn ? sums.of(operands) + thread * poolBlockTile(s) : as<float>(operands[result]) + at;
        for (int64_t p = 0; p < s.windows.inPlane; ++p)
          std::fill_n(own + p * step, count, 0.0f);
        add(image, first, count, own, step);
        for (int64_t p = 0; isOwn && p < s.windows.inPlane; ++p)
          convertFast(DType::f32, own + p * step, s.dtype, as<char>(operands[result]) + (at + p * n) * sizeOf(s.dtype),
                      count);
      }
    });
  }

private:
  PoolShape s;
  int threads;
  Piece<float> sums;
};

Prepared prepareMaxPoolGrad(const KernelSpec &spec) {
  Result<PoolShape> read = readMaxPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read) || read->index != DType::i32)
    return decline();
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    return makeKernel([spec, s = *read, sums = ChannelSums(spec, workspace, *read)](void *const *operands,
                                                                                    const StepContext &) -> Status {
      const int64_t n = s.order.channels, out = s.windows.outPlane;
      const int32_t *indices = as<int32_t>(operands[1]);
      const int32_t largest = *std::max_element(indices, indices + s.planes * out);
      if (largest >= s.windows.inPlane)
        return outOfRange(spec, "index", largest, 0, s.windows.inPlane);
      sums.run(operands, 2, [&](int64_t image, int64_t first, int64_t count, float *own, int64_t step) {
        for (int64_t o = image * out; o < (image + 1) * out; ++o)
          for (int64_t c = 0, at = o * n + first; c < count; ++c, ++at)
            if (indices[at] >= 0)
              own[indices[at] * step + c] += load(as<T>(operands[0])[at]);
      });
      return Status::success();
    });
  });
}

Prepared prepareSumPoolGrad(const KernelSpec &spec) {
  Result<PoolShape> read = readSumPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read))
    return decline();
  Workspace workspace(spec);
  Taps taps(workspace, read->windows);
  return makeKernel(
      [s = *read, taps, sums = ChannelSums(spec, workspace, *read)](void *const *operands, const StepContext &) {
        const int64_t *positions = taps.fill(operands);
        const int64_t n = s.order.channels, out = s.windows.outPlane;
        sums.run(operands, 1, [&](int64_t image, int64_t first, int64_t count, float *own, int64_t step) {
          for (int64_t o = 0; o < out; ++o)
            taps.of(positions, o, [&](const int64_t *row, int64_t numTaps) {
              HWY_DYNAMIC_DISPATCH(spreadTyped)
              (s.dtype, as<char>(operands[0]) + ((image * out + o) * n + first) * sizeOf(s.dtype), count, row, numTaps,
               own, step);
            });
        });
      });
}

} // namespace

void addFastPoolLast(KernelRegistry &registry) {
  registry.add("max_pool", prepareMaxPool);
  registry.add("max_pool_grad", prepareMaxPoolGrad);
  registry.add("sum_pool", prepareSumPool);
  registry.add("sum_pool_grad", prepareSumPoolGrad);
}

} // namespace zc::cpu
#endif
