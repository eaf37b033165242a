//===- Pool.h - max_pool, sum_pool and their gradients -------------------------------===//
//
// A thread per window, and per element where gradients come back. max_pool's positions are all that its gradient knows:
// they are sorted (Segments.h). Sums are in double, in the CPU's order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Segments.h"
#include "kernels/cuda/Windows.h"

namespace zc::cuda {

template <typename T, typename I> struct MaxPoolBody {
  const T *x;
  T *y;
  I *indices;
  int64_t n;
  PlaneOrder order;
  Windows windows;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      const auto [plane, window] = order.placeOf(i, windows.outPlane);
      const T *own = x + order.begin(plane, windows.inPlane);
      int64_t where = -1;
      Compute<T> best = -std::numeric_limits<Compute<T>>::infinity();
      for (int64_t t = 0; t < windows.taps; ++t) {
        int64_t from = windows.readBy(window, t);
        if (from < 0)
          continue;
        Compute<T> value = load(own[from * order.step()]);
        if (where < 0 || value > best || (value != value && best == best)) {
          best = value;
          where = from;
        }
      }
      y[i] = store<T>(best);
      indices[i] = static_cast<I>(where);
    });
  }
};

/// The element that was the maximum of window i, over all planes.
template <typename I> struct MaximumOf {
  const I *indices;
  PlaneOrder order;
  int64_t inPlane, outPlane;
  ZC_HD int64_t operator()(int64_t i, const Frame &frame) const {
    int64_t at = indices[i];
    if (at >= inPlane)
      frame.fail({at, 0, inPlane, /*isLabel=*/false});
    if (at < 0 || at >= inPlane)
      return -1;
    return order.begin(order.placeOf(i, outPlane).plane, inPlane) + at * order.step();
  }
};

template <typename T> struct SumPoolBody {
  const T *x;
  T *y;
  int64_t n;
  PlaneOrder order;
  Windows windows;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      const auto [plane, window] = order.placeOf(i, windows.outPlane);
      const T *own = x + order.begin(plane, windows.inPlane);
      double sum = 0;
      for (int64_t t = 0; t < windows.taps; ++t)
        if (int64_t from = windows.readBy(window, t); from >= 0)
          sum += static_cast<double>(load(own[from * order.step()]));
      y[i] = storeSum<T>(sum);
    });
  }
};

template <typename T> struct SumPoolGradBody {
  const T *grad;
  T *d;
  int64_t n;
  PlaneOrder order;
  Windows windows;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      const auto [plane, position] = order.placeOf(i, windows.inPlane);
      const T *own = grad + order.begin(plane, windows.outPlane);
      double sum = 0;
      for (int64_t t = windows.taps; t-- > 0;)
        if (int64_t window = windows.reading(position, t); window >= 0)
          sum += static_cast<double>(load(own[window * order.step()]));
      d[i] = storeSum<T>(sum);
    });
  }
};

template <typename Target> Prepared<Target> prepareMaxPool(const KernelSpec &spec) {
  Result<shapes::PoolShape> read = shapes::readMaxPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    return withIndex(read->index, [&](auto indexTag) {
      using T = TypeOf<decltype(tag)>;
      using I = TypeOf<decltype(indexTag)>;
      return launching<Target>(spec, [order = PlaneOrder(read->order), windows = Windows(read->windows),
                                      n = spec.operands[1].numElements()](void *const *operands, const auto &launch) {
        overElements(launch, n,
                     MaxPoolBody<T, I>{static_cast<const T *>(operands[0]), static_cast<T *>(operands[1]),
                                       static_cast<I *>(operands[2]), n, order, windows});
      });
    });
  });
}

template <typename Target> Prepared<Target> prepareMaxPoolGrad(const KernelSpec &spec) {
  Result<shapes::PoolShape> read = shapes::readMaxPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!arePairs(spec.operands[2].numElements(), spec.operands[0].numElements()))
    return shapes::wrongSpec(spec, "fewer than 2^31 elements");
  return withFloat(read->dtype, [&](auto tag) {
    return withIndex(read->index, [&](auto indexTag) {
      using T = TypeOf<decltype(tag)>;
      using I = TypeOf<decltype(indexTag)>;
      return launching<Target>(spec, [order = PlaneOrder(read->order), in = read->windows.inPlane,
                                      out = read->windows.outPlane, n = spec.operands[0].numElements(),
                                      bytes = spec.operands[2].numBytes()](void *const *operands, const auto &launch) {
        launch.zero(operands[2], bytes);
        if (n == 0)
          return;
        Pairs pairs = sortedPairs(launch, n, MaximumOf<I>{static_cast<const I *>(operands[1]), order, in, out});
        foldRows(launch, pairs, static_cast<const T *>(operands[0]), static_cast<T *>(operands[2]), 1, SumSources<T>());
      });
    });
  });
}

template <typename Target> Prepared<Target> prepareSumPool(const KernelSpec &spec) {
  Result<shapes::PoolShape> read = shapes::readSumPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [order = PlaneOrder(read->order), windows = Windows(read->windows),
                                    n = spec.operands[1].numElements()](void *const *operands, const auto &launch) {
      overElements(
          launch, n,
          SumPoolBody<T>{static_cast<const T *>(operands[0]), static_cast<T *>(operands[1]), n, order, windows});
    });
  });
}

template <typename Target> Prepared<Target> prepareSumPoolGrad(const KernelSpec &spec) {
  Result<shapes::PoolShape> read = shapes::readSumPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [order = PlaneOrder(read->order), windows = Windows(read->windows),
                                    n = spec.operands[1].numElements()](void *const *operands, const auto &launch) {
      overElements(
          launch, n,
          SumPoolGradBody<T>{static_cast<const T *>(operands[0]), static_cast<T *>(operands[1]), n, order, windows});
    });
  });
}

template <typename Target, typename Registry> void addPools(Registry &registry) {
  registry.add("max_pool", prepareMaxPool<Target>);
  registry.add("max_pool_grad", prepareMaxPoolGrad<Target>);
  registry.add("sum_pool", prepareSumPool<Target>);
  registry.add("sum_pool_grad", prepareSumPoolGrad<Target>);
}

} // namespace zc::cuda
