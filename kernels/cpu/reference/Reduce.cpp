// Sum, mean, product and extrema over axes.
#include "kernels/formula/Reduce.h"
#include "kernels/cpu/MoveShapes.h"

namespace zc::cpu {
namespace {

template <typename Op> Prepared prepareReduce(const KernelSpec &spec) {
  Result<ReduceShape> read = readReduce(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Walk<1> outer(read->kept, {read->keptStrides}), inner(read->reduced, {read->reducedStrides});
  return withElement(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([outer, inner, count = product(read->reduced, 0, read->reduced.size())](void *const *operands,
                                                                                              const StepContext &) {
      T *y = as<T>(operands[1]);
      outer.forEach([&](const Walk<1>::Offsets &base) {
        const T *x = as<T>(operands[0]) + base[0];
        Sum<T> acc = Op::template start<T>();
        inner.forEach([&](const Walk<1>::Offsets &at) { acc = Op::apply(acc, static_cast<Sum<T>>(load(x[at[0]]))); });
        *y++ = storeSum<T>(Op::finish(acc, count));
      });
    });
  });
}

} // namespace

void addReduce(KernelRegistry &registry) {
  registry.add("reduce_sum", prepareReduce<SumOf>);
  registry.add("reduce_mean", prepareReduce<MeanOf>);
  registry.add("reduce_max", prepareReduce<LargestOf>);
  registry.add("reduce_min", prepareReduce<SmallestOf>);
  registry.add("reduce_prod", prepareReduce<ProductOf>);
}

} // namespace zc::cpu
