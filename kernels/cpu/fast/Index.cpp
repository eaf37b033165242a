// What takes or updates elements at indices: gather_elements, gather_nd and their gradients, scatter_elements and
// scatter_nd. Bits are the plain ones: what falls on one element falls in index order, on one thread.
#include "kernels/cpu/Copy.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/IndexShapes.h"
#include "kernels/shapes/Shapes.h"

#include <atomic>
#include <cstring>

namespace zc::cpu {
namespace {

/// Indices along a dimension of n > 0 elements; one outside is taken for 0 and remembered.
struct Bounded {
  int64_t n;
  bool isOutside = false;

  int64_t operator()(int64_t index) {
    const int64_t at = index < 0 ? index + n : index;
    const bool isInside = static_cast<uint64_t>(at) < static_cast<uint64_t>(n);
    isOutside |= !isInside;
    return isInside ? at : 0;
  }
};

/// The error of the first of `count` indices that is outside of its dimension; they go through the dimensions in turn.
template <typename I>
Status firstOutside(const KernelSpec &spec, const I *indices, int64_t count, const int64_t *n, size_t dimensions) {
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t bound = n[static_cast<size_t>(i) % dimensions]; wrapped(indices[i], bound) < 0)
      return outOfRange(spec, "index", indices[i], -bound, bound);
  return Status::success();
}

//===-- along an axis --------------------------------------------------------===//

/// What an element of the tensor of the larger shape is there for.
enum class Use { isRead, isWritten };

/// Calls element(where the index is, where in the tensor of the larger shape) for all indices. No two threads write to
/// one line of that tensor: they share a run of neighbours, or runs where these go along the axis. False: an index is
/// outside, and stood for 0.
template <Use use, typename I, typename Fn>
bool forElements(const Walk<2> &walk, int64_t n, int64_t axisStride, int threads, const I *indices, Fn element) {
  const int64_t step = walk.runStride(0), across = walk.runStride(1), length = walk.runLength();
  std::atomic<bool> isOutside{false};
  auto runs = [&](int64_t first, int64_t last, int64_t begin, int64_t end) {
    Bounded bounded{n};
    walk.forRuns(first, last, [&](const Walk<2>::Offsets &at) {
      for (int64_t j = begin; j < end; ++j) {
        const int64_t i = at[0] + j * step;
        element(i, at[1] + j * across + bounded(indices[i]) * axisStride);
      }
    });
    if (bounded.isOutside)
      isOutside = true;
  };
  const int team = threadsFor(threads, walk.numRuns() * length);
  if (use == Use::isRead || across == 0)
    parallelRanges(team, walk.numRuns(), 1, [&](int64_t begin, int64_t end, int) { runs(begin, end, 0, length); });
  else
    parallelRanges(team, length, 64, [&](int64_t begin, int64_t end, int) { runs(0, walk.numRuns(), begin, end); });
  return !isOutside;
}

/// forElements and its error.
template <Use use, typename I, typename Fn>
Status atElements(const KernelSpec &spec, const Walk<2> &walk, int64_t n, int64_t axisStride, const void *indices,
                  Fn element) {
  const int64_t count = spec.operands[1].numElements();
  const I *those = static_cast<const I *>(indices);
  if (n > 0 && forElements<use>(walk, n, axisStride, spec.threads, those, element))
    return Status::success();
  return firstOutside(spec, those, count, &n, 1);
}

Prepared prepareGatherElements(const KernelSpec &spec) {
  Result<ElementsShape> read = readElements(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withBytes(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([spec, s = *read](void *const *operands, const StepContext &) {
        const T *x = as<T>(operands[0]);
        T *y = as<T>(operands[2]);
        return atElements<Use::isRead, I>(spec, s.walk, s.n, s.axisStride, operands[1],
                                          [x, y](int64_t i, int64_t at) { y[i] = x[at]; });
      });
    });
  });
}

/// `target[at] += update[i]` in the elements' type, as scatter_elements adds.
template <typename T> auto adding(T *target, const T *update) {
  return [=](int64_t i, int64_t at) { target[at] = updated(ScatterReduction::add, target[at], update[i]); };
}

Prepared prepareGatherElementsGrad(const KernelSpec &spec) {
  Result<ElementsShape> read = readElements(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(spec.operands[0].dtype))
    return decline();
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withFast(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([spec, s = *read](void *const *operands, const StepContext &) {
        std::memset(operands[2], 0, static_cast<size_t>(spec.operands[2].numBytes()));
        return atElements<Use::isWritten, I>(spec, s.walk, s.n, s.axisStride, operands[1],
                                             adding(as<T>(operands[2]), as<T>(operands[0])));
      });
    });
  });
}

Prepared prepareScatterElements(const KernelSpec &spec) {
  Result<ScatterElementsShape> read = readScatterElements(spec);
  ZC_RETURN_IF_ERROR(read.status());
  auto kernel = [&](auto indexTag, auto tag, auto update) {
    using I = TypeOf<decltype(indexTag)>;
    using T = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, update](void *const *operands, const StepContext &) {
      copyData(spec, operands);
      return atElements<Use::isWritten, I>(spec, s.walk, s.n, s.axisStride, operands[1],
                                           update(as<T>(operands[3]), static_cast<const T *>(operands[2])));
    });
  };
  const DType type = spec.operands[0].dtype;
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    if (read->reduction == ScatterReduction::none)
      return withBytes(type, [&](auto tag) {
        using T = TypeOf<decltype(tag)>;
        return kernel(indexTag, tag, [](T *target, const T *update) {
          return [=](int64_t i, int64_t at) { target[at] = update[i]; };
        });
      });
    if (read->reduction != ScatterReduction::add || !isFast(type))
      return decline();
    return withFast(type, [&](auto tag) {
      using T = TypeOf<decltype(tag)>;
      return kernel(indexTag, tag, adding<T>);
    });
  });
}

//===-- slices ---------------------------------------------------------------===//

/// Tuples of indices, each of a slice.
struct Slices {
  Dims bounds;

  /// Calls fn(number of the tuple, number of its slice) for tuples [begin, end). False: an index is outside, and stood
  /// for 0.
  template <typename I, typename Fn> bool forEach(const I *indices, int64_t begin, int64_t end, Fn fn) const {
    const auto depth = static_cast<int64_t>(bounds.size());
    bool isOutside = false;
    for (int64_t t = begin; t < end; ++t) {
      int64_t slice = 0;
      for (int64_t d = 0; d < depth; ++d) {
        Bounded bounded{bounds[static_cast<size_t>(d)]};
        slice = slice * bounded.n + bounded(indices[t * depth + d]);
        isOutside |= bounded.isOutside;
      }
      fn(t, slice);
    }
    return !isOutside;
  }
  bool isEmpty() const { return product(bounds, 0, bounds.size()) == 0; }
  template <typename I> Status firstOutsideOf(const KernelSpec &spec, const I *indices) const {
    return firstOutside(spec, indices, spec.operands[1].numElements(), bounds.data(), bounds.size());
  }
};

Prepared prepareGatherNd(const KernelSpec &spec) {
  Result<GatherNdShape> read = readGatherNd(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  const int64_t row = read->inner * sizeOf(spec.operands[0].dtype);
  if (row == 0 || read->bounds.empty())
    return decline();
  return withIndex(spec.operands[1].dtype, [&](auto tag) {
    using I = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, those = Slices{read->bounds}, row](void *const *operands, const StepContext &) {
      const I *indices = as<I>(operands[1]);
      const char *x = as<char>(operands[0]);
      char *y = as<char>(operands[2]);
      const int64_t tuples = s.batch * s.perBatch;
      std::atomic<bool> isOutside{tuples > 0 && those.isEmpty()};
      const int threads = threadsFor(spec.threads, tuples * s.inner);
      auto take = [&](int64_t begin, int64_t end, int) {
        if (!those.forEach(indices, begin, end, [&](int64_t t, int64_t slice) {
              copyRow(y + t * row, x + (t / s.perBatch * s.slices + slice) * row, row);
            }))
          isOutside = true;
      };
      if (!isOutside)
        parallelRanges(threads, tuples, 1, take);
      return isOutside ? those.firstOutsideOf(spec, indices) : Status::success();
    });
  });
}

Prepared prepareGatherNdGrad(const KernelSpec &spec) {
  Result<GatherNdShape> read = readGatherNd(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  if (spec.operands[0].dtype != DType::f32 || read->bounds.empty())
    return decline(); // others are rounded once, at the end of their sums
  return withIndex(spec.operands[1].dtype, [&](auto tag) {
    using I = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, those = Slices{read->bounds}](void *const *operands, const StepContext &) {
      const I *indices = as<I>(operands[1]);
      const float *source = as<float>(operands[0]);
      float *target = as<float>(operands[2]);
      const int64_t tuples = s.batch * s.perBatch, rows = s.batch * s.slices;
      if (tuples > 0 && those.isEmpty())
        return those.firstOutsideOf(spec, indices);
      std::atomic<bool> isOutside{false};
      // Each thread goes through all tuples for the rows that are its own.
      const int threads = threadsFor(spec.threads, tuples * s.inner);
      parallelParts(threads, rows, 1, [&](int64_t begin, int64_t end, int) {
        std::memset(target + begin * s.inner, 0, static_cast<size_t>((end - begin) * s.inner) * sizeof(float));
        if (!those.forEach(indices, 0, tuples, [&](int64_t t, int64_t slice) {
              if (const int64_t to = t / s.perBatch * s.slices + slice; to >= begin && to < end)
                for (int64_t j = 0; j < s.inner; ++j)
                  target[to * s.inner + j] += source[t * s.inner + j];
            }))
          isOutside = true;
      });
      return isOutside ? those.firstOutsideOf(spec, indices) : Status::success();
    });
  });
}

Prepared prepareScatterNd(const KernelSpec &spec) {
  Result<ScatterNdShape> read = readScatterNd(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const DType type = spec.operands[0].dtype;
  if (read->bounds.empty() ||
      (read->reduction != ScatterReduction::none && (read->reduction != ScatterReduction::add || !isFast(type))))
    return decline();
  auto kernel = [&](auto indexTag, auto update) {
    using I = TypeOf<decltype(indexTag)>;
    return makeKernel(
        [spec, s = *read, those = Slices{read->bounds}, update](void *const *operands, const StepContext &) {
          const I *indices = as<I>(operands[1]);
          copyData(spec, operands);
          if (s.tuples == 0 || (!those.isEmpty() && those.forEach(indices, 0, s.tuples, [&](int64_t t, int64_t slice) {
                update(operands[3], slice * s.inner, operands[2], t * s.inner, s.inner);
              })))
            return Status::success();
          return those.firstOutsideOf(spec, indices);
        });
  };
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    if (read->reduction == ScatterReduction::none)
      return kernel(indexTag, [bytes = sizeOf(type)](void *to, int64_t at, const void *from, int64_t t, int64_t n) {
        copyRow(static_cast<char *>(to) + at * bytes, static_cast<const char *>(from) + t * bytes, n * bytes);
      });
    return withFast(type, [&](auto tag) {
      using T = TypeOf<decltype(tag)>;
      return kernel(indexTag, [](void *to, int64_t at, const void *from, int64_t t, int64_t n) {
        auto add = adding(static_cast<T *>(to) + at, static_cast<const T *>(from) + t);
        for (int64_t j = 0; j < n; ++j)
          add(j, j);
      });
    });
  });
}

} // namespace

void addFastIndex(KernelRegistry &registry) {
  registry.add("gather_elements", prepareGatherElements);
  registry.add("gather_elements_grad", prepareGatherElementsGrad);
  registry.add("gather_nd", prepareGatherNd);
  registry.add("gather_nd_grad", prepareGatherNdGrad);
  registry.add("scatter_elements", prepareScatterElements);
  registry.add("scatter_nd", prepareScatterNd);
}

} // namespace zc::cpu
