// Sum, mean, product and extrema over axes.
#include "kernels/cpu/Support.h"
#include "kernels/cpu/reference/ElementTypes.h"
#include "kernels/shapes/MoveShapes.h"

namespace zc::cpu {
namespace {

Prepared prepareReduce(ElementReduction of, const Walk<1> &outer, const Walk<1> &inner, int64_t count, int64_t bytes) {
  return makeKernel([=](void *const *operands, const StepContext &) {
    char *y = as<char>(operands[1]);
    outer.forEach([&](const Walk<1>::Offsets &base) {
      const char *x = as<char>(operands[0]) + base[0] * bytes;
      SumStorage sum;
      of.start(sum);
      inner.forEach([&](const Walk<1>::Offsets &at) { of.add(sum, x + at[0] * bytes); });
      of.finish(sum, count, y);
      y += bytes;
    });
  });
}

template <typename Op> Prepared prepareReduce(const KernelSpec &spec) {
  Result<ReduceShape> read = readReduce(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Walk<1> outer(read->kept, {read->keptStrides}), inner(read->reduced, {read->reducedStrides});
  return prepareReduce(reductionOf<Op>(read->dtype), outer, inner, product(read->reduced, 0, read->reduced.size()),
                       sizeOf(read->dtype));
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
