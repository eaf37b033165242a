// Sum, mean, product and extrema over axes.
#include "kernels/cpu/Support.h"

namespace zc::cpu {
namespace {

struct SumOf {
  template <typename T> static Sum<T> start() { return 0; }
  template <typename S> static void add(S &acc, S x) { acc += x; }
  template <typename S> static S finish(S acc, int64_t) { return acc; }
};
struct MeanOf : SumOf {
  template <typename S> static S finish(S acc, int64_t n) {
    if constexpr (std::is_floating_point_v<S>)
      return acc / static_cast<S>(n);
    else
      return n ? acc / n : 0;
  }
};
struct MaxOf : SumOf {
  template <typename T> static Sum<T> start() {
    if constexpr (Element<T>::isFloat)
      return -std::numeric_limits<double>::infinity();
    else if constexpr (std::is_same_v<T, Bool>)
      return 0;
    else
      return std::numeric_limits<T>::min();
  }
  template <typename S> static void add(S &acc, S x) { acc = x > acc || x != x ? x : acc; }
};

struct MinOf : SumOf {
  template <typename T> static Sum<T> start() {
    if constexpr (Element<T>::isFloat)
      return std::numeric_limits<double>::infinity();
    else if constexpr (std::is_same_v<T, Bool>)
      return 1;
    else
      return std::numeric_limits<T>::max();
  }
  template <typename S> static void add(S &acc, S x) { acc = x < acc || x != x ? x : acc; }
};
struct ProductOf : SumOf {
  template <typename T> static Sum<T> start() { return 1; }
  template <typename S> static void add(S &acc, S x) { acc *= x; }
};

template <typename Op> Prepared prepareReduce(const KernelSpec &spec) {
  Dims axes = spec.getInts("axes"), kept, keptStrides, reduced, reducedStrides;
  auto matches = [&] {
    const Dims &dims = spec.operands[0].dims;
    Dims strides = rowMajorStrides(dims), withOnes;
    size_t next = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      bool isReduced = next < axes.size() && axes[next] == static_cast<int64_t>(i);
      next += isReduced;
      (isReduced ? reduced : kept).push_back(dims[i]);
      (isReduced ? reducedStrides : keptStrides).push_back(strides[i]);
      withOnes.push_back(isReduced ? 1 : dims[i]);
    }
    return next == axes.size() && spec.operands[1].dims == (spec.getInt("keepdims", 0) ? withOnes : kept);
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return spec.operands[0].dtype == spec.operands[1].dtype; }, "one element type")
                         .that(matches, "sorted axes and the reduced shape")
                         .done());
  Walk<1> outer(kept, {keptStrides}), inner(reduced, {reducedStrides});
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [outer, inner, count = product(reduced, 0, reduced.size())](void *const *operands, const StepContext &) {
          T *y = as<T>(operands[1]);
          outer.forEach([&](const Walk<1>::Offsets &base) {
            const T *x = as<T>(operands[0]) + base[0];
            Sum<T> acc = Op::template start<T>();
            inner.forEach([&](const Walk<1>::Offsets &at) { Op::add(acc, static_cast<Sum<T>>(load(x[at[0]]))); });
            *y++ = storeSum<T>(Op::finish(acc, count));
          });
        });
  });
}

} // namespace

void addReduce(KernelRegistry &registry) {
  registry.add("reduce_sum", prepareReduce<SumOf>);
  registry.add("reduce_mean", prepareReduce<MeanOf>);
  registry.add("reduce_max", prepareReduce<MaxOf>);
  registry.add("reduce_min", prepareReduce<MinOf>);
  registry.add("reduce_prod", prepareReduce<ProductOf>);
}

} // namespace zc::cpu
