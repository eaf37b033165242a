// What runs along one axis: top_k, arg_max, cumsum, cumprod.
#include "kernels/cpu/Support.h"

#include <numeric>

namespace zc::cpu {
namespace {

/// A tensor as [outer, n, inner].
struct Lines {
  int64_t outer = 1, n = 1, inner = 1;

  Lines(const Dims &dims, int64_t axis)
      : outer(product(dims, 0, static_cast<size_t>(axis))), n(dims[static_cast<size_t>(axis)]),
        inner(product(dims, static_cast<size_t>(axis) + 1, dims.size())) {}
  /// fn(offset of the line's first element here, in one of `count` elements per line).
  template <typename Fn> void forEach(int64_t count, Fn fn) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        fn(o * n * inner + i, o * count * inner + i);
  }
};

bool hasAxis(const KernelSpec &spec) {
  int64_t axis = spec.getInt("axis", -1);
  return axis >= 0 && axis < static_cast<int64_t>(spec.operands[0].dims.size());
}

/// a before b: larger (or smaller) first; NaN counts as the largest.
template <typename C> bool isBefore(C a, C b, bool smallest) {
  if (a != a || b != b)
    return smallest ? a == a && b != b : a != a && b == b;
  return smallest ? a < b : a > b;
}

Prepared prepareTopK(const KernelSpec &spec) {
  int64_t k = spec.getInt("k", 0), axis = spec.getInt("axis", -1);
  auto matches = [&] {
    TensorType expected = spec.operands[0];
    if (k < 0 || k > expected.dims[static_cast<size_t>(axis)])
      return false;
    expected.dims[static_cast<size_t>(axis)] = k;
    return spec.operands[1] == expected && spec.operands[2] == TensorType{DType::i64, expected.dims};
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 2)
                         .that([&] { return hasAxis(spec); }, "an axis of its operand")
                         .that(matches, "results with k elements along the axis")
                         .done());
  Lines lines(spec.operands[0].dims, axis);
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    return makeKernel([lines, k, smallest = spec.getInt("smallest", 0) != 0,
                       places = workspace.take<int64_t>(lines.n)](void *const *operands, const StepContext &) {
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
  int64_t axis = spec.getInt("axis", -1);
  auto matches = [&] {
    Dims dims = spec.operands[0].dims;
    if (dims[static_cast<size_t>(axis)] == 0)
      return false;
    dims.erase(dims.begin() + axis);
    return spec.operands[1] == TensorType{DType::i64, dims};
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return hasAxis(spec); }, "an axis of its operand")
                         .that(matches, "an axis with elements and i64 indices without it")
                         .done());
  Lines lines(spec.operands[0].dims, axis);
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([lines, smallest = spec.getInt("smallest", 0) != 0,
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
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return hasAxis(spec); }, "an axis of its operand")
                         .that([&] { return spec.operands[0] == spec.operands[1]; }, "a result of the operand's type")
                         .done());
  Lines lines(spec.operands[0].dims, spec.getInt("axis", 0));
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([lines, exclusive = spec.getInt("exclusive", 0) != 0,
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
