// gather, gather_elements, gather_nd and their gradients. Every index is checked before it is used.
#include "kernels/cpu/Chains.h"
#include "kernels/cpu/Shapes.h"

#include <cstring>

namespace zc::cpu {
namespace {

/// Index in [-n, n) to [0, n); -1 if outside.
template <typename I> int64_t wrap(I index, int64_t n) {
  int64_t i = index;
  return i < -n || i >= n ? -1 : i < 0 ? i + n : i;
}

//===-- gather -------------------------------------------------------------===//

Prepared prepareGather(const KernelSpec &spec) {
  Result<GatherShape> read = readGather(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(read->index, [&](auto tag) {
    using I = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, row = read->inner * sizeOf(read->dtype)](void *const *operands,
                                                                                 const StepContext &) -> Status {
      const I *indices = as<I>(operands[1]);
      char *y = as<char>(operands[2]);
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t i = 0; i < s.count; ++i, y += row) {
          int64_t at = wrap(indices[i], s.n);
          if (at < 0)
            return outOfRange(spec, "index", indices[i], -s.n, s.n);
          if (row)
            std::memcpy(y, as<char>(operands[0]) + (o * s.n + at) * row, static_cast<size_t>(row));
        }
      return Status::success();
    });
  });
}

/// target[o][row][:] = sum of source[o][i][:] over the chain of `row`.
template <typename T>
void addChains(const Chains &chains, const T *source, T *target, int64_t outer, int64_t rows, int64_t count,
               int64_t inner) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t j = 0; j < inner; ++j) {
        Sum<T> sum = 0;
        for (int64_t i = chains.first(row); i >= 0; i = chains.after(i))
          sum += load(source[(o * count + i) * inner + j]);
        target[(o * rows + row) * inner + j] = storeSum<T>(sum);
      }
}

Prepared prepareGatherGrad(const KernelSpec &spec) {
  Result<GatherShape> read = readGather(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(read->index, [&](auto indexTag) {
    return withElement(read->dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      Workspace workspace(spec);
      return makeKernel([spec, s = *read, pieces = ChainPieces(workspace, read->n, read->count)](
                            void *const *operands, const StepContext &) -> Status {
        Chains chains = pieces.make(operands);
        for (int64_t i = s.count; i-- > 0;) {
          int64_t at = wrap(as<I>(operands[1])[i], s.n);
          if (at < 0)
            return outOfRange(spec, "index", as<I>(operands[1])[i], -s.n, s.n);
          chains.add(at, i);
        }
        addChains(chains, as<T>(operands[0]), as<T>(operands[2]), s.outer, s.n, s.count, s.inner);
        return Status::success();
      });
    });
  });
}

//===-- gather_elements ----------------------------------------------------===//

Prepared prepareGatherElements(const KernelSpec &spec) {
  Result<ElementsShape> read = readElements(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withBytes(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([spec, s = *read](void *const *operands, const StepContext &) {
        Status status;
        s.walk.forEach([&](const Walk<2>::Offsets &at) {
          I index = as<I>(operands[1])[at[0]];
          int64_t i = wrap(index, s.n);
          if (i >= 0)
            as<T>(operands[2])[at[0]] = as<T>(operands[0])[at[1] + i * s.axisStride];
          else if (status.ok())
            status = outOfRange(spec, "index", index, -s.n, s.n);
        });
        return status;
      });
    });
  });
}

/// Adds in the element type: collisions are rare (a label picks one class of a row).
Prepared prepareGatherElementsGrad(const KernelSpec &spec) {
  Result<ElementsShape> read = readElements(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withElement(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([spec, s = *read](void *const *operands, const StepContext &) {
        Status status;
        T *d = as<T>(operands[2]);
        std::memset(d, 0, static_cast<size_t>(spec.operands[2].numBytes()));
        s.walk.forEach([&](const Walk<2>::Offsets &at) {
          I index = as<I>(operands[1])[at[0]];
          int64_t i = wrap(index, s.n);
          if (i >= 0) {
            T &target = d[at[1] + i * s.axisStride];
            target =
                storeSum<T>(static_cast<Sum<T>>(load(target)) + static_cast<Sum<T>>(load(as<T>(operands[0])[at[0]])));
          } else if (status.ok()) {
            status = outOfRange(spec, "index", index, -s.n, s.n);
          }
        });
        return status;
      });
    });
  });
}

//===-- gather_nd ----------------------------------------------------------===//

/// Number of the slice that tuple `t` names, counted over all batches; sets status if an index is out of range.
template <typename I>
int64_t sliceOf(const KernelSpec &spec, const GatherNdShape &s, const I *indices, int64_t t, Status &status) {
  int64_t slice = 0;
  for (size_t j = 0; j < s.bounds.size(); ++j) {
    I index = indices[t * static_cast<int64_t>(s.bounds.size()) + static_cast<int64_t>(j)];
    int64_t i = wrap(index, s.bounds[j]);
    if (i < 0) {
      status = outOfRange(spec, "index", index, -s.bounds[j], s.bounds[j]);
      return 0;
    }
    slice = slice * s.bounds[j] + i;
  }
  return t / s.perBatch * s.slices + slice;
}

Prepared prepareGatherNd(const KernelSpec &spec) {
  Result<GatherNdShape> read = readGatherNd(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[1].dtype, [&](auto tag) {
    using I = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, row = read->inner * sizeOf(spec.operands[0].dtype)](void *const *operands,
                                                                                            const StepContext &) {
      Status status;
      for (int64_t t = 0; t < s.batch * s.perBatch && status.ok(); ++t) {
        int64_t slice = sliceOf(spec, s, as<I>(operands[1]), t, status);
        if (status.ok() && row)
          std::memcpy(as<char>(operands[2]) + t * row, as<char>(operands[0]) + slice * row, static_cast<size_t>(row));
      }
      return status;
    });
  });
}

Prepared prepareGatherNdGrad(const KernelSpec &spec) {
  Result<GatherNdShape> read = readGatherNd(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  int64_t rows = read->batch * read->slices, count = read->batch * read->perBatch;
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withElement(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      Workspace workspace(spec);
      return makeKernel([spec, s = *read, rows, count,
                         pieces = ChainPieces(workspace, rows, count)](void *const *operands, const StepContext &) {
        Status status;
        Chains chains = pieces.make(operands);
        for (int64_t t = count; t-- > 0 && status.ok();) {
          int64_t slice = sliceOf(spec, s, as<I>(operands[1]), t, status);
          if (status.ok())
            chains.add(slice, t);
        }
        if (status.ok())
          addChains(chains, as<T>(operands[0]), as<T>(operands[2]), 1, rows, count, s.inner);
        return status;
      });
    });
  });
}

} // namespace

void addIndex(KernelRegistry &registry) {
  registry.add("gather", prepareGather);
  registry.add("gather_grad", prepareGatherGrad);
  registry.add("gather_elements", prepareGatherElements);
  registry.add("gather_elements_grad", prepareGatherElementsGrad);
  registry.add("gather_nd", prepareGatherNd);
  registry.add("gather_nd_grad", prepareGatherNdGrad);
}

} // namespace zc::cpu
