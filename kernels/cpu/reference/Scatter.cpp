// scatter_elements and scatter_nd: a copy of the data, then the updates in index order. Every index is checked before
// it is used.
#include "kernels/cpu/Support.h"
#include "kernels/cpu/reference/ElementTypes.h"
#include "kernels/shapes/IndexShapes.h"

#include <cstring>

namespace zc::cpu {
namespace {

/// What an update does to one element.
using UpdateElement = void (*)(ScatterReduction reduction, void *target, const void *update);

UpdateElement updateOf(const KernelSpec &spec) {
  return withElement(spec.operands[0].dtype, [](auto tag) -> UpdateElement {
    using T = TypeOf<decltype(tag)>;
    return [](ScatterReduction reduction, void *target, const void *update) {
      T &element = *static_cast<T *>(target);
      element = updated(reduction, element, *static_cast<const T *>(update));
    };
  });
}

Prepared prepareScatterElements(const KernelSpec &spec) {
  Result<ScatterElementsShape> read = readScatterElements(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([spec, s = *read, indices = IndexElements(spec.operands[1].dtype), update = updateOf(spec),
                     bytes = sizeOf(spec.operands[0].dtype)](void *const *operands, const StepContext &) {
    copyData(spec, operands);
    Status status;
    s.walk.forEach([&](const Walk<2>::Offsets &at) {
      int64_t index = indices.get(operands[1], at[0]), i = wrapped(index, s.n);
      if (i >= 0)
        update(s.reduction, as<char>(operands[3]) + (at[1] + i * s.axisStride) * bytes,
               as<char>(operands[2]) + at[0] * bytes);
      else if (status.ok())
        status = outOfRange(spec, "index", index, -s.n, s.n);
    });
    return status;
  });
}

Prepared prepareScatterNd(const KernelSpec &spec) {
  Result<ScatterNdShape> read = readScatterNd(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([spec, s = *read, indices = IndexElements(spec.operands[1].dtype), update = updateOf(spec),
                     bytes = sizeOf(spec.operands[0].dtype)](void *const *operands, const StepContext &) -> Status {
    copyData(spec, operands);
    int64_t at = 0;
    for (int64_t t = 0; t < s.tuples; ++t) {
      int64_t slice = 0;
      for (int64_t bound : s.bounds) {
        int64_t index = indices.get(operands[1], at++), i = wrapped(index, bound);
        if (i < 0)
          return outOfRange(spec, "index", index, -bound, bound);
        slice = slice * bound + i;
      }
      for (int64_t j = 0; j < s.inner; ++j)
        update(s.reduction, as<char>(operands[3]) + (slice * s.inner + j) * bytes,
               as<char>(operands[2]) + (t * s.inner + j) * bytes);
    }
    return Status::success();
  });
}

} // namespace

void addScatter(KernelRegistry &registry) {
  registry.add("scatter_elements", prepareScatterElements);
  registry.add("scatter_nd", prepareScatterNd);
}

} // namespace zc::cpu
