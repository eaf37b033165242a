// What runs along one axis: top_k, arg_max, cumsum, cumprod.
#include "kernels/cpu/IndexShapes.h"

#include <numeric>

namespace zc::cpu {
namespace {

/// a before b: larger (or smaller) first; NaN counts as the largest.
template <typename C> bool isBefore(C a, C b, bool smallest) { return orderKey(a, smallest) > orderKey(b, smallest); }

Prepared prepareTopK(const KernelSpec &spec) {
  Result<Lines> read = readTopK(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    return makeKernel([lines = *read, k = spec.getInt("k", 0), smallest = spec.getInt("smallest", 0) != 0,
                       places = workspace.take<int64_t>(read->n)](void *const *operands, const StepContext &) {
      int64_t *order = places.of(operands);
      lines.forEach(k, [&](int64_t from, int64_t to) {
        const T *x = as<T>(operands[0]) + from;
        std::iota(order, order + lines.n, 0);
        std::partial_sort(order, order + k, order + lines.n, [&](int64_t a, int64_t b) {
          auto left = load(x[a * lines.inner]), right = load(x[b * lines.inner]);
          bool before = isBefore(left, right, smallest);
          return before || (!isBefore(right, left, smallest) && a < b);
        });
        for (int64_t i = 0; i < k; ++i) {
          as<T>(operands[1])[to + i * lines.inner] = x[order[i] * lines.inner];
          as<int64_t>(operands[2])[to + i * lines.inner] = order[i];
        }
      });
    });
  });
}

Prepared prepareArgMax(const KernelSpec &spec) {
  Result<Lines> read = readArgMax(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([lines = *read, smallest = spec.getInt("smallest", 0) != 0,
                       last = spec.getInt("last", 0) != 0](void *const *operands, const StepContext &) {
      lines.forEach(1, [&](int64_t from, int64_t to) {
        const T *x = as<T>(operands[0]) + from;
        int64_t best = 0;
        for (int64_t i = 1; i < lines.n; ++i) {
          auto candidate = load(x[i * lines.inner]), top = load(x[best * lines.inner]);
          if (isBefore(candidate, top, smallest) || (last && !isBefore(top, candidate, smallest)))
            best = i;
        }
        as<int64_t>(operands[1])[to] = best;
      });
    });
  });
}

/// Sums in double for floats, as reductions.
template <bool isProduct> Prepared prepareCumulative(const KernelSpec &spec) {
  Result<Lines> read = readCumulative(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([lines = *read, exclusive = spec.getInt("exclusive", 0) != 0,
                       reverse = spec.getInt("reverse", 0) != 0](void *const *operands, const StepContext &) {
      lines.forEach(lines.n, [&](int64_t from, int64_t to) {
        const T *x = as<T>(operands[0]) + from;
        T *y = as<T>(operands[1]) + to;
        Sum<T> sum = isProduct ? 1 : 0;
        for (int64_t i = 0; i < lines.n; ++i) {
          int64_t at = (reverse ? lines.n - 1 - i : i) * lines.inner;
          Sum<T> value = static_cast<Sum<T>>(load(x[at])), before = sum;
          sum = isProduct ? sum * value : sum + value;
          y[at] = storeSum<T>(exclusive ? before : sum);
        }
      });
    });
  });
}

} // namespace

void addOrder(KernelRegistry &registry) {
  registry.add("top_k", prepareTopK);
  registry.add("arg_max", prepareArgMax);
  registry.add("cumsum", prepareCumulative<false>);
  registry.add("cumprod", prepareCumulative<true>);
}

} // namespace zc::cpu
