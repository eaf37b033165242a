//===- Order.h - top_k, arg_max, cumsum and cumprod --------------------------------===//
//
// Lines of a tensor are few or short in training graphs (routers, masks), so simple ways will do: top_k counts for each
// element those before it (n comparisons each), cumulative sums are a thread per line, in the CPU's order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/shapes/IndexShapes.h"

namespace zc::cuda {

using namespace formula;

/// Line `line` of [outer, n, inner]: where its first element is, in a tensor with n elements per line.
ZC_HD int64_t lineBegin(int64_t line, int64_t n, int64_t inner) { return line / inner * n * inner + line % inner; }

/// A block per line: element i goes to the place that is the number of elements before it.
template <typename T> struct TopKBody {
  const T *x;
  T *values;
  int64_t *indices;
  int64_t n, inner, k;
  bool smallest;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t line, const Frame &) const {
    const T *from = x + lineBegin(line, n, inner);
    int64_t to = lineBegin(line, k, inner);
    block.forEach(n, [&](int64_t i) {
      uint64_t mine = orderKey(load(from[i * inner]), smallest);
      int64_t rank = 0;
      for (int64_t j = 0; j < n && rank < k; ++j) {
        uint64_t other = orderKey(load(from[j * inner]), smallest);
        rank += other > mine || (other == mine && j < i);
      }
      if (rank >= k)
        return;
      values[to + rank * inner] = from[i * inner];
      indices[to + rank * inner] = i;
    });
  }
};

/// A block per line: the first or last of those that no other comes before.
template <typename T> struct ArgMaxBody {
  const T *x;
  int64_t *indices;
  int64_t n, inner;
  bool smallest, last;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t line, const Frame &) const {
    const T *from = x + lineBegin(line, n, inner);
    auto keyOf = [&](int64_t i) { return extremeKey(load(from[i * inner]), smallest); };
    uint64_t top = block.template reduce<MaxOf>(n, uint64_t{0}, keyOf);
    int64_t at = last ? block.template reduce<MaxOf>(n, int64_t{0}, [&](int64_t i) { return keyOf(i) == top ? i : 0; })
                      : block.template reduce<MinOf>(n, n, [&](int64_t i) { return keyOf(i) == top ? i : n; });
    block.once([&] { indices[line] = at; });
  }
};

/// A thread per line.
template <typename T, bool isProduct> struct CumulativeBody {
  const T *x;
  T *y;
  int64_t lines, n, inner;
  bool exclusive, reverse;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, lines, [&](int64_t line) {
      int64_t start = lineBegin(line, n, inner);
      Sum<T> sum = isProduct ? 1 : 0;
      for (int64_t i = 0; i < n; ++i) {
        int64_t at = start + (reverse ? n - 1 - i : i) * inner;
        Sum<T> value = static_cast<Sum<T>>(load(x[at])), before = sum;
        sum = isProduct ? sum * value : sum + value;
        y[at] = storeSum<T>(exclusive ? before : sum);
      }
    });
  }
};

/// A block per line, of one size: rows of another would make three kernels of each of twelve types.
template <typename Launcher, typename Body>
void overLines(const Launcher &launch, const shapes::Lines &lines, const Body &body) {
  if (lines.count() > 0)
    launch.template blocks<kElementThreads>(lines.count(), body);
}

template <typename Target> Prepared<Target> prepareTopK(const KernelSpec &spec) {
  Result<shapes::Lines> read = shapes::readTopK(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read, k = spec.getInt("k", 0), smallest = spec.getInt("smallest", 0) != 0](
                                       void *const *operands, const auto &launch) {
      if (k > 0)
        overLines(launch, s,
                  TopKBody<T>{static_cast<const T *>(operands[0]), static_cast<T *>(operands[1]),
                              static_cast<int64_t *>(operands[2]), s.n, s.inner, k, smallest});
    });
  });
}

template <typename Target> Prepared<Target> prepareArgMax(const KernelSpec &spec) {
  Result<shapes::Lines> read = shapes::readArgMax(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read, smallest = spec.getInt("smallest", 0) != 0,
                                    last = spec.getInt("last", 0) != 0](void *const *operands, const auto &launch) {
      overLines(launch, s,
                ArgMaxBody<T>{static_cast<const T *>(operands[0]), static_cast<int64_t *>(operands[1]), s.n, s.inner,
                              smallest, last});
    });
  });
}

template <typename Target, bool isProduct> Prepared<Target> prepareCumulative(const KernelSpec &spec) {
  Result<shapes::Lines> read = shapes::readCumulative(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(
        spec, [s = *read, exclusive = spec.getInt("exclusive", 0) != 0,
               reverse = spec.getInt("reverse", 0) != 0](void *const *operands, const auto &launch) {
          overResults(launch, s.count(),
                      CumulativeBody<T, isProduct>{static_cast<const T *>(operands[0]), static_cast<T *>(operands[1]),
                                                   s.count(), s.n, s.inner, exclusive, reverse});
        });
  });
}

template <typename Target, typename Registry> void addOrder(Registry &registry) {
  registry.add("top_k", prepareTopK<Target>);
  registry.add("arg_max", prepareArgMax<Target>);
  registry.add("cumsum", prepareCumulative<Target, false>);
  registry.add("cumprod", prepareCumulative<Target, true>);
}

} // namespace zc::cuda
