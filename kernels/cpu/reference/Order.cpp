// What runs along one axis: top_k, arg_max, cumsum, cumprod.
#include "kernels/cpu/Support.h"
#include "kernels/cpu/reference/ElementTypes.h"
#include "kernels/shapes/IndexShapes.h"

#include <cstring>
#include <numeric>

namespace zc::cpu {
namespace {

/// a before b: larger (or smaller) first; NaN counts as the largest, or, of extremes, wins.
using IsBefore = bool (*)(const void *a, const void *b, bool smallest);
template <bool kOfExtremes> IsBefore isBeforeOf(DType type) {
  return withElement(type, [](auto tag) -> IsBefore {
    using T = TypeOf<decltype(tag)>;
    return [](const void *a, const void *b, bool smallest) {
      auto keyOf = [smallest](const void *at) {
        const auto x = load(*static_cast<const T *>(at));
        return kOfExtremes ? extremeKey(x, smallest) : orderKey(x, smallest);
      };
      return keyOf(a) > keyOf(b);
    };
  });
}

Prepared prepareTopK(const KernelSpec &spec) {
  Result<Lines> read = readTopK(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const DType type = spec.operands[0].dtype;
  Workspace workspace(spec);
  return makeKernel([lines = *read, k = spec.getInt("k", 0), smallest = spec.getInt("smallest", 0) != 0,
                     places = workspace.take<int64_t>(read->n), isBefore = isBeforeOf<false>(type),
                     bytes = sizeOf(type)](void *const *operands, const StepContext &) {
    int64_t *order = places.of(operands);
    lines.forEach(k, [&](int64_t from, int64_t to) {
      auto at = [&](int64_t i) { return as<char>(operands[0]) + (from + i * lines.inner) * bytes; };
      std::iota(order, order + lines.n, 0);
      std::partial_sort(order, order + k, order + lines.n, [&](int64_t a, int64_t b) {
        bool before = isBefore(at(a), at(b), smallest);
        return before || (!isBefore(at(b), at(a), smallest) && a < b);
      });
      for (int64_t i = 0; i < k; ++i) {
        const int64_t result = to + i * lines.inner;
        std::memcpy(as<char>(operands[1]) + result * bytes, at(order[i]), static_cast<size_t>(bytes));
        as<int64_t>(operands[2])[result] = order[i];
      }
    });
  });
}

Prepared prepareArgMax(const KernelSpec &spec) {
  Result<Lines> read = readArgMax(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const DType type = spec.operands[0].dtype;
  return makeKernel([lines = *read, smallest = spec.getInt("smallest", 0) != 0, last = spec.getInt("last", 0) != 0,
                     isBefore = isBeforeOf<true>(type),
                     bytes = sizeOf(type)](void *const *operands, const StepContext &) {
    lines.forEach(1, [&](int64_t from, int64_t to) {
      auto at = [&](int64_t i) { return as<char>(operands[0]) + (from + i * lines.inner) * bytes; };
      int64_t best = 0;
      for (int64_t i = 1; i < lines.n; ++i)
        if (isBefore(at(i), at(best), smallest) || (last && !isBefore(at(best), at(i), smallest)))
          best = i;
      as<int64_t>(operands[1])[to] = best;
    });
  });
}

/// Sums in double for floats, as reductions.
template <typename Op> Prepared prepareCumulative(const KernelSpec &spec) {
  Result<Lines> read = readCumulative(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const DType type = spec.operands[0].dtype;
  return makeKernel([lines = *read, exclusive = spec.getInt("exclusive", 0) != 0,
                     reverse = spec.getInt("reverse", 0) != 0, of = reductionOf<Op>(type),
                     bytes = sizeOf(type)](void *const *operands, const StepContext &) {
    lines.forEach(lines.n, [&](int64_t from, int64_t to) {
      const char *x = as<char>(operands[0]) + from * bytes;
      char *y = as<char>(operands[1]) + to * bytes;
      SumStorage sum;
      of.start(sum);
      for (int64_t i = 0; i < lines.n; ++i) {
        const int64_t at = (reverse ? lines.n - 1 - i : i) * lines.inner * bytes;
        const SumStorage before = sum;
        of.add(sum, x + at); // before it may be overwritten
        of.finish(exclusive ? before : sum, i, y + at);
      }
    });
  });
}

int64_t topKBytes(const KernelSpec &spec) {
  const int64_t axis = spec.getInt("axis", -1);
  const Dims &dims = spec.operands[0].dims;
  return axis < 0 || axis >= static_cast<int64_t>(dims.size())
             ? 0
             : Workspace::bytesOf<int64_t>(dims[static_cast<size_t>(axis)]);
}

} // namespace

void addOrder(KernelRegistry &registry) {
  registry.add("top_k", prepareTopK, topKBytes);
  registry.add("arg_max", prepareArgMax);
  registry.add("cumsum", prepareCumulative<SumOf>);
  registry.add("cumprod", prepareCumulative<ProductOf>);
}

} // namespace zc::cpu
