//===- Scatter.h - elements and slices by index, both ways ---------------------------===//
//
// gather_nd, scatter_elements, scatter_nd and the gradients of gathers. What several indices name is worked on in the
// order of the indices (Segments.h). Limit: the sort, about 16 bytes read and written four times per index.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Segments.h"
#include "kernels/cuda/StridedIndex.h"
#include "kernels/shapes/IndexShapes.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cuda {

/// Index in [-n, n) to [0, n); else -1, and the frame is told.
template <typename I> ZC_HD int64_t checkedIndex(I index, int64_t n, const Frame &frame) {
  int64_t i = index;
  if (i >= -n && i < n)
    return i < 0 ? i + n : i;
  frame.wrongIndex(i, n);
  return -1;
}

/// The element of data that index i names, along an axis.
template <typename I> struct ElementOf {
  const I *indices;
  StridedIndex<2> places; ///< of the indices; of data, 0 along the axis
  int64_t n, axisStride;
  ZC_HD int64_t operator()(int64_t i, const Frame &frame) const {
    int64_t at[2];
    places.offsets(i, at);
    int64_t k = checkedIndex(indices[at[0]], n, frame);
    return k < 0 ? -1 : at[1] + k * axisStride;
  }
};

/// The slice of data that tuple t names, counted over all batches.
template <typename I> struct SliceOf {
  const I *indices;
  int64_t bounds[shapes::kMaxRank];
  int64_t length, perBatch, slices;
  SliceOf(const void *indices, const shapes::Dims &of, int64_t perBatch, int64_t slices)
      : indices(static_cast<const I *>(indices)), bounds{}, length(static_cast<int64_t>(of.size())), perBatch(perBatch),
        slices(slices) {
    std::copy(of.begin(), of.end(), bounds);
  }
  ZC_HD int64_t operator()(int64_t t, const Frame &frame) const {
    int64_t slice = 0;
    for (int64_t j = 0; j < length; ++j) {
      int64_t i = checkedIndex(indices[t * length + j], bounds[j], frame);
      if (i < 0)
        return -1;
      slice = slice * bounds[j] + i;
    }
    return t / perBatch * slices + slice;
  }
};

/// y[t] = data[slice of t], rows of `inner` units.
template <typename T, typename I> struct GatherSlicesBody {
  const T *data;
  T *y;
  int64_t n, inner;
  SliceOf<I> sliceOf;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    forElements(block, index, n * inner, [&](int64_t i) {
      int64_t t = i / inner, slice = sliceOf(t, frame);
      if (slice >= 0)
        y[i] = data[slice * inner + i % inner];
    });
  }
};

template <typename Target> Prepared<Target> prepareGatherNd(const KernelSpec &spec) {
  Result<shapes::GatherNdShape> read = shapes::readGatherNd(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withBytes(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
        int64_t n = s.batch * s.perBatch;
        overElements(launch, n * s.inner,
                     GatherSlicesBody<T, I>{static_cast<const T *>(operands[0]), static_cast<T *>(operands[2]), n,
                                            s.inner, SliceOf<I>(operands[1], s.bounds, s.perBatch, s.slices)});
      });
    });
  });
}

template <typename Target> Prepared<Target> prepareGatherNdGrad(const KernelSpec &spec) {
  Result<shapes::GatherNdShape> read = shapes::readGatherNd(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  if (!arePairs(read->batch * read->slices, read->batch * read->perBatch))
    return shapes::wrongSpec(spec, "fewer than 2^31 slices and indices");
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [index = spec.operands[1].dtype, s = *read,
                                    bytes = spec.operands[2].numBytes()](void *const *operands, const auto &launch) {
      launch.zero(operands[2], bytes);
      int64_t n = s.batch * s.perBatch;
      if (n == 0)
        return;
      const Pairs pairs = withIndex(index, [&](auto indexTag) {
        using I = TypeOf<decltype(indexTag)>;
        return sortedPairs(launch, n, SliceOf<I>(operands[1], s.bounds, s.perBatch, s.slices));
      });
      if (s.inner == 0)
        return;
      foldRows(launch, pairs, static_cast<const T *>(operands[0]), static_cast<T *>(operands[2]), s.inner,
               SumSources<T>());
    });
  });
}

template <typename Target> Prepared<Target> prepareGatherElementsGrad(const KernelSpec &spec) {
  Result<shapes::ElementsShape> read = shapes::readElements(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  if (!arePairs(spec.operands[2].numElements(), spec.operands[1].numElements()))
    return shapes::wrongSpec(spec, "fewer than 2^31 elements");
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [index = spec.operands[1].dtype, n = read->n, axisStride = read->axisStride,
                                    places = StridedIndex<2>(read->walk), count = spec.operands[1].numElements(),
                                    bytes = spec.operands[2].numBytes()](void *const *operands, const auto &launch) {
      launch.zero(operands[2], bytes);
      if (count == 0)
        return;
      const Pairs pairs = withIndex(index, [&](auto indexTag) {
        using I = TypeOf<decltype(indexTag)>;
        return sortedPairs(launch, count, ElementOf<I>{static_cast<const I *>(operands[1]), places, n, axisStride});
      });
      foldRows(launch, pairs, static_cast<const T *>(operands[0]), static_cast<T *>(operands[2]), 1, SumSources<T>());
    });
  });
}

//===-- scatters -------------------------------------------------------------===//

/// Updates a row in order, beginning with what it holds.
template <typename T> struct UpdateInOrder {
  ScatterReduction reduction;
  ZC_HD T begin(T target) const { return target; }
  ZC_HD T next(T value, T source) const { return updated(reduction, value, source); }
  ZC_HD T end(T value) const { return value; }
};

template <typename Target> Prepared<Target> prepareScatterElements(const KernelSpec &spec) {
  Result<shapes::ScatterElementsShape> read = shapes::readScatterElements(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!arePairs(spec.operands[0].numElements(), spec.operands[1].numElements()))
    return shapes::wrongSpec(spec, "fewer than 2^31 elements");
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [index = spec.operands[1].dtype, n = read->n, axisStride = read->axisStride,
                                    reduction = read->reduction, places = StridedIndex<2>(read->walk),
                                    count = spec.operands[1].numElements(),
                                    bytes = spec.operands[0].numBytes()](void *const *operands, const auto &launch) {
      launch.copy(operands[3], operands[0], bytes);
      if (count == 0)
        return;
      const Pairs pairs = withIndex(index, [&](auto indexTag) {
        using I = TypeOf<decltype(indexTag)>;
        return sortedPairs(launch, count, ElementOf<I>{static_cast<const I *>(operands[1]), places, n, axisStride});
      });
      foldRows(launch, pairs, static_cast<const T *>(operands[2]), static_cast<T *>(operands[3]), 1,
               UpdateInOrder<T>{reduction});
    });
  });
}

template <typename Target> Prepared<Target> prepareScatterNd(const KernelSpec &spec) {
  Result<shapes::ScatterNdShape> read = shapes::readScatterNd(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!arePairs(read->slices, read->tuples))
    return shapes::wrongSpec(spec, "fewer than 2^31 slices and indices");
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [index = spec.operands[1].dtype, s = *read,
                                    bytes = spec.operands[0].numBytes()](void *const *operands, const auto &launch) {
      launch.copy(operands[3], operands[0], bytes);
      if (s.tuples == 0)
        return;
      const Pairs pairs = withIndex(index, [&](auto indexTag) {
        using I = TypeOf<decltype(indexTag)>;
        return sortedPairs(launch, s.tuples, SliceOf<I>(operands[1], s.bounds, s.tuples, s.slices));
      });
      if (s.inner == 0)
        return;
      foldRows(launch, pairs, static_cast<const T *>(operands[2]), static_cast<T *>(operands[3]), s.inner,
               UpdateInOrder<T>{s.reduction});
    });
  });
}

template <typename Target, typename Registry> void addScatters(Registry &registry) {
  registry.add("gather_elements_grad", prepareGatherElementsGrad<Target>);
  registry.add("gather_nd", prepareGatherNd<Target>);
  registry.add("gather_nd_grad", prepareGatherNdGrad<Target>);
  registry.add("scatter_elements", prepareScatterElements<Target>);
  registry.add("scatter_nd", prepareScatterNd<Target>);
}

} // namespace zc::cuda
