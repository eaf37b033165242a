// max_pool, sum_pool and their gradients, by the table of which element each tap of each window reads.
#include "kernels/cpu/Windows.h"
#include "kernels/cpu/reference/ElementTypes.h"

namespace zc::cpu {
namespace {

Prepared prepareMaxPool(const KernelSpec &spec) {
  Result<PoolShape> read = readMaxPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    auto positions = read->windows.takeTable(workspace);
    return makeKernel(
        [s = *read, indices = IndexElements(read->index), positions](void *const *operands, const StepContext &) {
          int64_t *table = positions.of(operands);
          s.windows.fillTable(table);
          const int64_t step = s.order.step();
          for (int64_t p = 0; p < s.planes; ++p) {
            const T *x = as<T>(operands[0]) + s.order.begin(p, s.windows.inPlane);
            const int64_t to = s.order.begin(p, s.windows.outPlane);
            for (int64_t o = 0; o < s.windows.outPlane; ++o) {
              Compute<T> best = -std::numeric_limits<Compute<T>>::infinity();
              int64_t where = -1;
              for (int64_t t = 0; t < s.windows.taps; ++t) {
                int64_t from = table[o * s.windows.taps + t];
                if (from < 0)
                  continue;
                Compute<T> value = load(x[from * step]);
                if (where < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
                  best = value;
                  where = from;
                }
              }
              as<T>(operands[1])[to + o * step] = store<T>(best);
              indices.set(operands[2], to + o * step, where);
            }
          }
        });
  });
}

Prepared prepareMaxPoolGrad(const KernelSpec &spec) {
  Result<PoolShape> read = readMaxPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    return makeKernel(
        [spec, s = *read, indices = IndexElements(read->index),
         sums = workspace.take<double>(read->windows.inPlane)](void *const *operands, const StepContext &) -> Status {
          PlaneSums plane(s.windows, sums.of(operands));
          for (int64_t p = 0; p < s.planes; ++p) {
            plane.begin();
            const int64_t step = s.order.step(), begin = s.order.begin(p, s.windows.outPlane);
            for (int64_t o = begin; o < begin + s.windows.outPlane * step; o += step) {
              int64_t to = indices.get(operands[1], o);
              if (to >= s.windows.inPlane)
                return outOfRange(spec, "index", to, 0, s.windows.inPlane);
              if (to >= 0)
                plane[to] += load(as<T>(operands[0])[o]);
            }
            plane.store(as<T>(operands[2]) + s.order.begin(p, s.windows.inPlane), step);
          }
          return Status::success();
        });
  });
}

Prepared prepareSumPool(const KernelSpec &spec) {
  Result<PoolShape> read = readSumPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    auto positions = read->windows.takeTable(workspace);
    return makeKernel([s = *read, positions](void *const *operands, const StepContext &) {
      int64_t *table = positions.of(operands);
      s.windows.fillTable(table);
      const int64_t step = s.order.step();
      for (int64_t p = 0; p < s.planes; ++p)
        for (int64_t o = 0; o < s.windows.outPlane; ++o) {
          double sum = 0;
          for (int64_t t = 0; t < s.windows.taps; ++t)
            if (int64_t from = table[o * s.windows.taps + t]; from >= 0)
              sum += load(as<T>(operands[0])[s.order.begin(p, s.windows.inPlane) + from * step]);
          as<T>(operands[1])[s.order.begin(p, s.windows.outPlane) + o * step] = storeSum<T>(sum);
        }
    });
  });
}

Prepared prepareSumPoolGrad(const KernelSpec &spec) {
  Result<PoolShape> read = readSumPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    auto positions = read->windows.takeTable(workspace);
    return makeKernel([s = *read, positions, sums = workspace.take<double>(read->windows.inPlane)](
                          void *const *operands, const StepContext &) {
      PlaneSums plane(s.windows, sums.of(operands), positions.of(operands));
      for (int64_t p = 0; p < s.planes; ++p) {
        const int64_t step = s.order.step(), from = s.order.begin(p, s.windows.outPlane);
        plane.begin();
        plane.add([&](int64_t o, int64_t) { return load(as<T>(operands[0])[from + o * step]); });
        plane.store(as<T>(operands[1]) + s.order.begin(p, s.windows.inPlane), step);
      }
    });
  });
}

} // namespace

void addPool(KernelRegistry &registry) {
  registry.add("max_pool", prepareMaxPool);
  registry.add("max_pool_grad", prepareMaxPoolGrad);
  registry.add("sum_pool", prepareSumPool);
  registry.add("sum_pool_grad", prepareSumPoolGrad);
}

} // namespace zc::cpu
