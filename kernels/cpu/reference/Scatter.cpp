// scatter_elements and scatter_nd: a copy of the data, then the updates in index order. Every index is checked before
// it is used.
#include "kernels/cpu/IndexShapes.h"

#include <cstring>

namespace zc::cpu {
namespace {

void copyData(const KernelSpec &spec, void *const *operands) {
  if (int64_t bytes = spec.operands[0].numBytes())
    std::memmove(operands[3], operands[0], static_cast<size_t>(bytes));
}

Prepared prepareScatterElements(const KernelSpec &spec) {
  Result<ScatterElementsShape> read = readScatterElements(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withElement(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([spec, s = *read](void *const *operands, const StepContext &) {
        copyData(spec, operands);
        Status status;
        s.walk.forEach([&](const Walk<2>::Offsets &at) {
          int64_t index = as<I>(operands[1])[at[0]], i = wrapped(index, s.n);
          if (i >= 0) {
            T &target = as<T>(operands[3])[at[1] + i * s.axisStride];
            target = updated(s.reduction, target, as<T>(operands[2])[at[0]]);
          } else if (status.ok()) {
            status = outOfRange(spec, "index", index, -s.n, s.n);
          }
        });
        return status;
      });
    });
  });
}

Prepared prepareScatterNd(const KernelSpec &spec) {
  Result<ScatterNdShape> read = readScatterNd(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withElement(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([spec, s = *read](void *const *operands, const StepContext &) -> Status {
        copyData(spec, operands);
        const I *index = as<I>(operands[1]);
        for (int64_t t = 0; t < s.tuples; ++t) {
          int64_t slice = 0;
          for (int64_t bound : s.bounds) {
            int64_t i = wrapped(*index, bound);
            if (i < 0)
              return outOfRange(spec, "index", *index, -bound, bound);
            slice = slice * bound + i;
            ++index;
          }
          for (int64_t j = 0; j < s.inner; ++j) {
            T &target = as<T>(operands[3])[slice * s.inner + j];
            target = updated(s.reduction, target, as<T>(operands[2])[t * s.inner + j]);
          }
        }
        return Status::success();
      });
    });
  });
}

} // namespace

void addScatter(KernelRegistry &registry) {
  registry.add("scatter_elements", prepareScatterElements);
  registry.add("scatter_nd", prepareScatterNd);
}

} // namespace zc::cpu
