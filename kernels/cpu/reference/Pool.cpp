// max_pool, sum_pool and their gradients, by the table of which element each tap of each window reads.
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/reference/ElementTypes.h"
#include "kernels/shapes/Windows.h"

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

//===-- workspace: the larger of what this and the fast version need ---------===//

int64_t poolBytes(const PoolShape &s) { return s.windows.tableBytes(); }

template <bool hasTable> int64_t poolGradBytes(const PoolShape &s) {
  const int64_t table = hasTable ? s.windows.tableBytes() : 0;
  const int64_t plain = Workspace::sum(Workspace::bytesOf<double>(s.windows.inPlane), table);
  const bool isNarrow = isFast(s.dtype) && s.dtype != DType::f32;
  if (!isNarrow)
    return plain;
  if (s.order.channelsLast)
    return std::max(
        plain, Workspace::sum(Workspace::bytesOf<float>(Workspace::times(poolBlockTile(s), poolBlockTiles(s))), table));
  return std::max(plain, Workspace::bytesOf<float>(Workspace::times(s.windows.inPlane, planeTiles(s))));
}

} // namespace

void addPool(KernelRegistry &registry) {
  registry.add("max_pool", prepareMaxPool, bytesOf<readMaxPool, poolBytes>);
  registry.add("max_pool_grad", prepareMaxPoolGrad, bytesOf<readMaxPoolGrad, poolGradBytes<false>>);
  registry.add("sum_pool", prepareSumPool, bytesOf<readSumPool, poolBytes>);
  registry.add("sum_pool_grad", prepareSumPoolGrad, bytesOf<readSumPoolGrad, poolGradBytes<true>>);
}

} // namespace zc::cpu
