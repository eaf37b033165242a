// gather, gather_elements, gather_nd and their gradients. Every index is checked before it is used.
#include "kernels/cpu/Chains.h"
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/reference/ElementTypes.h"
#include "kernels/shapes/IndexShapes.h"
#include "kernels/shapes/Shapes.h"

#include <cstring>

namespace zc::cpu {
namespace {

//===-- gather -------------------------------------------------------------===//

Prepared prepareGather(const KernelSpec &spec) {
  Result<GatherShape> read = readGather(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([spec, s = *read, indices = IndexElements(read->index),
                     row = read->inner * sizeOf(read->dtype)](void *const *operands, const StepContext &) -> Status {
    char *y = as<char>(operands[2]);
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i = 0; i < s.count; ++i, y += row) {
        int64_t index = indices.get(operands[1], i), at = wrapped(index, s.n);
        if (at < 0)
          return outOfRange(spec, "index", index, -s.n, s.n);
        if (row)
          std::memcpy(y, as<char>(operands[0]) + (o * s.n + at) * row, static_cast<size_t>(row));
      }
    return Status::success();
  });
}

/// Tensors [outer, count, inner] whose rows are added to those of [outer, rows, inner].
struct ChainSums {
  int64_t outer, rows, count, inner;
};

/// target[o][row][:] = sum of source[o][i][:] over the chain of `row`. With `onto`, of the target's shape, that and the
/// rounded sum, where a row has one.
template <typename T>
void addChains(const Chains &chains, const void *from, const void *base, void *to, const ChainSums &s) {
  const T *source = static_cast<const T *>(from), *onto = static_cast<const T *>(base);
  T *target = static_cast<T *>(to);
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t row = 0; row < s.rows; ++row)
      for (int64_t j = 0; j < s.inner; ++j) {
        Sum<T> sum = 0;
        for (int64_t i = chains.first(row); i >= 0; i = chains.after(i))
          sum += load(source[(o * s.count + i) * s.inner + j]);
        const int64_t at = (o * s.rows + row) * s.inner + j;
        if (onto && chains.first(row) >= 0)
          target[at] = storeSum<T>(Sum<T>(load(onto[at])) + Sum<T>(load(storeSum<T>(sum))));
        else
          target[at] = onto ? onto[at] : storeSum<T>(sum);
      }
}

using AddChains = void (*)(const Chains &chains, const void *from, const void *base, void *to, const ChainSums &sums);
AddChains addChainsOf(DType type) {
  return withElement(type, [](auto tag) -> AddChains { return addChains<TypeOf<decltype(tag)>>; });
}

Prepared prepareGatherGrad(const KernelSpec &spec) {
  Result<GatherShape> read = readGatherGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Workspace workspace(spec);
  return makeKernel(
      [spec, s = *read, indices = IndexElements(read->index), addChains = addChainsOf(read->dtype),
       pieces = ChainPieces(workspace, read->n, read->count)](void *const *operands, const StepContext &) -> Status {
        Chains chains = pieces.make(operands);
        for (int64_t i = s.count; i-- > 0;) {
          int64_t index = indices.get(operands[1], i), at = wrapped(index, s.n);
          if (at < 0)
            return outOfRange(spec, "index", index, -s.n, s.n);
          chains.add(at, i);
        }
        addChains(chains, operands[0], addsOnto(spec) ? operands[2] : nullptr, operands[spec.numInputs],
                  {s.outer, s.n, s.count, s.inner});
        return Status::success();
      });
}

//===-- gather_elements ----------------------------------------------------===//

Prepared prepareGatherElements(const KernelSpec &spec) {
  Result<ElementsShape> read = readElements(spec, 0, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withBytes(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [spec, s = *read, indices = IndexElements(spec.operands[1].dtype)](void *const *operands, const StepContext &) {
          Status status;
          s.walk.forEach([&](const Walk<2>::Offsets &at) {
            int64_t index = indices.get(operands[1], at[0]), i = wrapped(index, s.n);
            if (i >= 0)
              as<T>(operands[2])[at[0]] = as<T>(operands[0])[at[1] + i * s.axisStride];
            else if (status.ok())
              status = outOfRange(spec, "index", index, -s.n, s.n);
          });
          return status;
        });
  });
}

/// Adds in the element type: collisions are rare (a label picks one class of a row).
using AddElement = void (*)(void *target, const void *source);
AddElement addElementOf(DType type) {
  return withElement(type, [](auto tag) -> AddElement {
    using T = TypeOf<decltype(tag)>;
    return [](void *target, const void *source) {
      T &sum = *static_cast<T *>(target);
      sum = storeSum<T>(static_cast<Sum<T>>(load(sum)) + static_cast<Sum<T>>(load(*static_cast<const T *>(source))));
    };
  });
}

Prepared prepareGatherElementsGrad(const KernelSpec &spec) {
  Result<ElementsShape> read = readElements(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  const DType type = spec.operands[0].dtype;
  return makeKernel([spec, s = *read, indices = IndexElements(spec.operands[1].dtype), add = addElementOf(type),
                     bytes = sizeOf(type)](void *const *operands, const StepContext &) {
    Status status;
    char *d = as<char>(operands[2]);
    std::memset(d, 0, static_cast<size_t>(spec.operands[2].numBytes()));
    s.walk.forEach([&](const Walk<2>::Offsets &at) {
      int64_t index = indices.get(operands[1], at[0]), i = wrapped(index, s.n);
      if (i >= 0)
        add(d + (at[1] + i * s.axisStride) * bytes, as<char>(operands[0]) + at[0] * bytes);
      else if (status.ok())
        status = outOfRange(spec, "index", index, -s.n, s.n);
    });
    return status;
  });
}

//===-- gather_nd ----------------------------------------------------------===//

/// Number of the slice that tuple `t` of `tuples` names, counted over all batches; sets status if an index is out of
/// range.
int64_t sliceOf(const KernelSpec &spec, const GatherNdShape &s, const void *tuples, int64_t t, Status &status) {
  const IndexElements indices(spec.operands[1].dtype);
  int64_t slice = 0;
  for (size_t j = 0; j < s.bounds.size(); ++j) {
    int64_t index = indices.get(tuples, t * static_cast<int64_t>(s.bounds.size()) + static_cast<int64_t>(j));
    int64_t i = wrapped(index, s.bounds[j]);
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
  return makeKernel([spec, s = *read, row = read->inner * sizeOf(spec.operands[0].dtype)](void *const *operands,
                                                                                          const StepContext &) {
    Status status;
    for (int64_t t = 0; t < s.batch * s.perBatch && status.ok(); ++t) {
      int64_t slice = sliceOf(spec, s, operands[1], t, status);
      if (status.ok() && row)
        std::memcpy(as<char>(operands[2]) + t * row, as<char>(operands[0]) + slice * row, static_cast<size_t>(row));
    }
    return status;
  });
}

Prepared prepareGatherNdGrad(const KernelSpec &spec) {
  Result<GatherNdShape> read = readGatherNd(spec, 2, 0);
  ZC_RETURN_IF_ERROR(read.status());
  int64_t rows = read->batch * read->slices, count = read->batch * read->perBatch;
  Workspace workspace(spec);
  return makeKernel([spec, s = *read, rows, count, addChains = addChainsOf(spec.operands[0].dtype),
                     pieces = ChainPieces(workspace, rows, count)](void *const *operands, const StepContext &) {
    Status status;
    Chains chains = pieces.make(operands);
    for (int64_t t = count; t-- > 0 && status.ok();) {
      int64_t slice = sliceOf(spec, s, operands[1], t, status);
      if (status.ok())
        chains.add(slice, t);
    }
    if (status.ok())
      addChains(chains, operands[0], /*base=*/nullptr, operands[2], {1, rows, count, s.inner});
    return status;
  });
}

//===-- workspace: the larger of what this and the fast version need ---------===//

int64_t gatherGradBytes(const KernelSpec &spec) {
  Result<GatherShape> read = readGatherGrad(spec);
  if (!read)
    return 0;
  const int64_t rows = isFast(read->dtype) ? Workspace::times(gatherGradRows(spec), gatherGradTiles(*read)) : 0;
  return Workspace::sum(ChainPieces::bytes(read->n, read->count),
                        Workspace::bytesOf<float>(Workspace::times(read->inner, rows)));
}
int64_t gatherNdGradBytes(const KernelSpec &spec) {
  Result<GatherNdShape> read = readGatherNd(spec, 2, 0);
  return read ? ChainPieces::bytes(Workspace::times(read->batch, read->slices),
                                   Workspace::times(read->batch, read->perBatch))
              : 0;
}

} // namespace

void addIndex(KernelRegistry &registry) {
  registry.add("gather", prepareGather);
  registry.add("gather_grad", prepareGatherGrad,
               KernelTraits(gatherGradBytes).overwriting(InputSet(1) << 2)); // what is added onto
  registry.add("gather_elements", prepareGatherElements);
  registry.add("gather_elements_grad", prepareGatherElementsGrad);
  registry.add("gather_nd", prepareGatherNd);
  registry.add("gather_nd_grad", prepareGatherNdGrad, gatherNdGradBytes);
}

} // namespace zc::cpu
