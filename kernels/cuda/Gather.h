//===- Gather.h - rows by index, and the sum of gradients by index ------------------===//
//
// Gradients: pairs (row, source) are sorted by row, stably; a block per run of equal rows adds its sources in order. No
// float atomics: the same bits every time, and those of the CPU's order of sums.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/cuda/StridedIndex.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cuda {

using namespace formula;

/// Index in [-n, n) to [0, n); -1 if outside.
template <typename I> ZC_HD int64_t wrapIndex(I index, int64_t n) {
  int64_t i = index;
  return i < -n || i >= n ? -1 : i < 0 ? i + n : i;
}

/// Row (o, i) of the result is row (o, indices[i]) of the data; T as wide as `inner` allows.
template <typename T, typename I> struct GatherBody {
  const T *data;
  const I *indices;
  T *y;
  int64_t n, count, inner;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    int64_t at = wrapIndex(indices[index % count], n);
    if (at < 0) {
      block.once([&] { frame.wrongIndex(indices[index % count], n); });
      return;
    }
    const T *from = data + (index / count * n + at) * inner;
    block.forEach(inner, [&](int64_t j) { y[index * inner + j] = from[j]; });
  }
};

template <typename Target> Prepared<Target> prepareGather(const KernelSpec &spec) {
  Result<shapes::GatherShape> read = shapes::readGather(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(read->index, [&](auto tag) {
    using I = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      auto typed = [&](auto unit, int64_t inner) {
        using T = decltype(unit);
        overRows(launch, s.outer * s.count, inner,
                 GatherBody<T, I>{static_cast<const T *>(operands[0]), static_cast<const I *>(operands[1]),
                                  static_cast<T *>(operands[2]), s.n, s.count, inner});
      };
      int64_t bytes = s.inner * sizeOf(s.dtype);
      bool aligned = (reinterpret_cast<uintptr_t>(operands[0]) | reinterpret_cast<uintptr_t>(operands[2])) % 8 == 0;
      if (bytes % 8 == 0 && aligned)
        typed(uint64_t(), bytes / 8);
      else
        typed(uint8_t(), bytes);
    });
  });
}

/// Pairs for sorting: the row of each source; a bad index fails and goes to row 0.
template <typename I> struct PairsBody {
  const I *indices;
  int32_t *rows, *sources;
  int64_t n, count;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    forElements(block, index, count, [&](int64_t i) {
      int64_t at = wrapIndex(indices[i], n);
      if (at < 0)
        frame.wrongIndex(indices[i], n);
      rows[i] = static_cast<int32_t>(at < 0 ? 0 : at);
      sources[i] = static_cast<int32_t>(i);
    });
  }
};

/// One past the last of the sorted `count` that are what rows[first] is: by steps that double, then by halves of the
/// last one. Of 32k that are padding 30 reads one after the other, not 32k.
ZC_HD int64_t endOfRun(const int32_t *rows, int64_t first, int64_t count) {
  int64_t end = first + 1, step = 1;
  auto goesOn = [&] { return end + step <= count && rows[end + step - 1] == rows[first]; };
  for (; goesOn(); step *= 2)
    end += step;
  for (step /= 2; step > 0; step /= 2)
    if (goesOn())
      end += step;
  return end;
}

/// Block (o, p): where sorted pair p is the first of its row, the row's sum.
template <typename T> struct SegmentSumBody {
  const T *grad;
  const int32_t *rows, *sources; ///< sorted
  T *d;
  int64_t n, count, inner;
  bool isOnto; ///< what lies in d
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t outer = index / count, p = index % count;
    int32_t row = rows[p];
    if (p > 0 && rows[p - 1] == row)
      return;
    const int64_t end = endOfRun(rows, p, count);
    constexpr int kOnTheirWay = Block::kThreads > 256 ? 16 : 24; // registers
    block.forEach(inner, [&](int64_t j) {
      Sum<T> sum = 0;
      inBatches<kOnTheirWay>(
          p, end, [&](int64_t k) { return grad[(outer * count + sources[k]) * inner + j]; },
          [&](T source) { sum += load(source); });
      T &to = d[(outer * n + row) * inner + j];
      to = isOnto ? storeSum<T>(Sum<T>(load(to)) + Sum<T>(load(storeSum<T>(sum)))) : storeSum<T>(sum);
    });
  }
};

template <typename Target> Prepared<Target> prepareGatherGrad(const KernelSpec &spec) {
  Result<shapes::GatherShape> read = shapes::readGatherGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (read->n > INT32_MAX || read->count > INT32_MAX)
    return shapes::wrongSpec(spec, "fewer than 2^31 rows and indices");
  return withElement(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read, bytes = spec.operands.back().numBytes(), isOnto = shapes::addsOnto(spec),
                                    result = spec.numInputs](void *const *operands, const auto &launch) {
      if (isOnto)
        launch.copy(operands[result], operands[2], bytes);
      else
        launch.zero(operands[result], bytes);
      if (s.count == 0)
        return;
      auto *rows = static_cast<int32_t *>(launch.workspace()), *sources = rows + 2 * s.count;
      withIndex(s.index, [&](auto indexTag) {
        using I = TypeOf<decltype(indexTag)>;
        overElements(launch, s.count, PairsBody<I>{static_cast<const I *>(operands[1]), rows, sources, s.n, s.count});
      });
      if (bytes == 0) // no row 0 for indices that are none
        return;
      launch.sortPairs(rows, sources, s.count, sources + 2 * s.count);
      SegmentSumBody<T> body{static_cast<const T *>(operands[0]),
                             rows + s.count,
                             sources + s.count,
                             static_cast<T *>(operands[result]),
                             s.n,
                             s.count,
                             s.inner,
                             isOnto};
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, Bf16> || std::is_same_v<T, F16>)
        overRows(launch, s.outer * s.count, s.inner, body);
      else
        launch.template blocks<kElementThreads>(s.outer * s.count, body);
    });
  });
}

/// Over the indices' shape: y[i] = data[i with indices[i] along the axis].
template <typename T, typename I> struct GatherElementsBody {
  const T *data;
  const I *indices;
  T *y;
  int64_t count, n, axisStride;
  StridedIndex<2> places; ///< of the indices; of data, 0 along the axis
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    forElements(block, index, count, [&](int64_t i) {
      int64_t at[2];
      places.offsets(i, at);
      int64_t k = wrapIndex(indices[at[0]], n);
      if (k < 0)
        frame.wrongIndex(indices[at[0]], n);
      else
        y[at[0]] = data[at[1] + k * axisStride];
    });
  }
};

template <typename Target> Prepared<Target> prepareGatherElements(const KernelSpec &spec) {
  Result<shapes::ElementsShape> read = shapes::readElements(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withBytes(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return launching<Target>(spec, [count = spec.operands[1].numElements(), n = read->n,
                                      axisStride = read->axisStride,
                                      places = StridedIndex<2>(read->walk)](void *const *operands, const auto &launch) {
        overElements(launch, count,
                     GatherElementsBody<T, I>{static_cast<const T *>(operands[0]), static_cast<const I *>(operands[1]),
                                              static_cast<T *>(operands[2]), count, n, axisStride, places});
      });
    });
  });
}

template <typename Target, typename Registry> void addGathers(Registry &registry) {
  registry.add("gather", prepareGather<Target>);
  registry.add("gather_grad", prepareGatherGrad<Target>);
  registry.add("gather_elements", prepareGatherElements<Target>);
}

} // namespace zc::cuda
