// transpose, expand, slice and copy: runs that are contiguous on both sides are copied whole; a transpose whose
// innermost dimension changes goes through small square tiles, so that both sides use whole cache lines.
#include "kernels/cpu/MoveShapes.h"
#include "kernels/cpu/fast/Fast.h"

#include <cstring>

namespace zc::cpu {
namespace {

/// Elements of a cache line.
template <typename T> constexpr int64_t kTile = 64 / static_cast<int64_t>(sizeof(T));

/// y[i][j] = x[j][i] for a tile. It goes through a buffer, so that every line is used whole when it is touched: at the
/// large strides of matrices lines of a tile would push each other out of the cache.
template <typename T>
void transposeTile(const T *x, int64_t xStride, T *y, int64_t yStride, int64_t rows, int64_t columns) {
  T buffer[kTile<T>][kTile<T>];
  for (int64_t j = 0; j < columns; ++j)
    std::memcpy(buffer[j], x + j * xStride, static_cast<size_t>(rows) * sizeof(T));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      y[i * yStride + j] = buffer[j][i];
}

/// Dimensions of a permutation after merging neighbours that stay neighbours.
struct Permutation {
  Dims dims, strides; ///< of the result, and how the operand is read along them
};
Permutation merged(const Dims &dims, const Dims &strides) {
  Permutation result;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1)
      continue;
    if (!result.dims.empty() && result.strides.back() == strides[i] * dims[i]) {
      result.dims.back() *= dims[i];
      result.strides.back() = strides[i];
    } else {
      result.dims.push_back(dims[i]);
      result.strides.push_back(strides[i]);
    }
  }
  return result;
}

/// The spec's permutation, checked; an empty result leaves the error to the plain kernel.
bool readTranspose(const KernelSpec &spec, Permutation &result) {
  const TensorType &in = spec.operands[0], &out = spec.operands[1];
  Dims permutation = spec.getInts("permutation"), seen(in.dims.size(), 0), own = rowMajorStrides(in.dims), strides;
  if (in.dtype != out.dtype || permutation.size() != in.dims.size() || out.dims.size() != in.dims.size())
    return false;
  for (size_t i = 0; i < permutation.size(); ++i) {
    int64_t p = permutation[i];
    if (p < 0 || p >= static_cast<int64_t>(in.dims.size()) || seen[static_cast<size_t>(p)]++ ||
        out.dims[i] != in.dims[static_cast<size_t>(p)])
      return false;
    strides.push_back(own[static_cast<size_t>(p)]);
  }
  result = merged(out.dims, strides);
  return in.numElements() > 0;
}

void copyBytes(void *to, const void *from, int64_t bytes, int threads) {
  parallelParts(threads, bytes, 4096, [&](int64_t begin, int64_t end, int) {
    std::memcpy(as<char>(to) + begin, static_cast<const char *>(from) + begin, static_cast<size_t>(end - begin));
  });
}

/// Runs along the last dimension of both sides, from element `start` of the operand on.
template <typename T> Prepared copyRuns(const Dims &dims, const Dims &strides, int threads, int64_t start = 0) {
  Walk<2> walk(dims, {rowMajorStrides(dims), strides});
  return makeKernel([walk, threads, start](void *const *operands, const StepContext &) {
    const T *x = as<T>(operands[0]) + start;
    T *y = as<T>(operands[1]);
    auto bytes = static_cast<size_t>(walk.runLength()) * sizeof(T);
    if (walk.numRuns() == 1 && walk.runStride(1) == 1)
      return copyBytes(y, x, static_cast<int64_t>(bytes), threads); // all of it is one run
    parallelParts(threads, walk.numRuns(), 1, [&](int64_t begin, int64_t end, int) {
      walk.forRuns(begin, end, [&](const Walk<2>::Offsets &at) {
        if (walk.runStride(1) == 1)
          std::memcpy(y + at[0], x + at[1], bytes);
        else
          for (int64_t i = 0; i < walk.runLength(); ++i)
            y[at[0] + i] = x[at[1] + i * walk.runStride(1)];
      });
    });
  });
}

/// The operand's innermost dimension is the result's dimension `inner`: tiles over it and the result's last one.
template <typename T> Prepared copyTiles(const Permutation &p, size_t inner, int threads) {
  Dims own = rowMajorStrides(p.dims), dims = p.dims, outStrides = own, inStrides = p.strides;
  size_t last = p.dims.size() - 1;
  int64_t rows = p.dims[inner], columns = p.dims[last], yStride = own[inner], xStride = p.strides[last];
  // Tiles are two more dimensions of the walk, in place of the two they cover.
  dims[inner] = (rows + kTile<T> - 1) / kTile<T>;
  dims[last] = (columns + kTile<T> - 1) / kTile<T>;
  outStrides[inner] = kTile<T> * yStride;
  outStrides[last] = kTile<T>;
  inStrides[inner] = kTile<T>;
  inStrides[last] = kTile<T> * xStride;
  // The tiles' coordinates, to know how far they reach: strides that count tiles.
  Dims rowOf(dims.size(), 0), columnOf(dims.size(), 0);
  rowOf[inner] = kTile<T>;
  columnOf[last] = kTile<T>;
  Walk<4> walk(dims, {outStrides, inStrides, rowOf, columnOf});
  return makeKernel([=](void *const *operands, const StepContext &) {
    parallelParts(threads, walk.numRuns(), 1, [&](int64_t begin, int64_t end, int) {
      walk.forRuns(begin, end, [&](const Walk<4>::Offsets &start) {
        Walk<4>::Offsets at = start;
        for (int64_t i = 0; i < walk.runLength(); ++i) {
          transposeTile(as<T>(operands[0]) + at[1], xStride, as<T>(operands[1]) + at[0], yStride,
                        std::min(kTile<T>, rows - at[2]), std::min(kTile<T>, columns - at[3]));
          for (size_t t = 0; t < 4; ++t)
            at[t] += walk.runStride(t);
        }
      });
    });
  });
}

Prepared prepareTranspose(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(1, 1).done());
  Permutation p;
  if (!readTranspose(spec, p))
    return decline();
  int threads = threadsFor(spec.threads, spec.operands[0].numElements());
  return withBytes(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    auto inner = std::find(p.strides.begin(), p.strides.end(), 1);
    if (p.dims.size() < 2 || p.strides.back() == 1 || inner == p.strides.end())
      return copyRuns<T>(p.dims, p.strides, threads);
    return copyTiles<T>(p, static_cast<size_t>(inner - p.strides.begin()), threads);
  });
}

Prepared prepareExpand(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(1, 1).done());
  const TensorType &in = spec.operands[0], &out = spec.operands[1];
  if (in.dtype != out.dtype || !broadcastsTo(in.dims, out.dims))
    return decline();
  return withBytes(in.dtype, [&](auto tag) {
    return copyRuns<TypeOf<decltype(tag)>>(out.dims, broadcastStrides(in.dims, out.dims),
                                           threadsFor(spec.threads, out.numElements()));
  });
}

Prepared prepareSlice(const KernelSpec &spec) {
  Result<MoveShape> shape = readSlice(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  const int64_t n = product(shape->dims, 0, shape->dims.size());
  if (n == 0 || shape->outStart != 0 || shape->outStrides != rowMajorStrides(shape->dims))
    return decline();
  return withBytes(shape->dtype, [&](auto tag) {
    return copyRuns<TypeOf<decltype(tag)>>(shape->dims, shape->inStrides, threadsFor(spec.threads, n), shape->inStart);
  });
}

Prepared prepareCopy(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(1, 1).done());
  int64_t bytes = spec.operands[0].numBytes();
  if (bytes != spec.operands[1].numBytes())
    return decline();
  return makeKernel([bytes, threads = threadsFor(spec.threads, bytes / 4)](void *const *operands, const StepContext &) {
    if (operands[0] != operands[1])
      copyBytes(operands[1], operands[0], bytes, threads);
  });
}

} // namespace

void addFastMove(KernelRegistry &registry) {
  registry.add("transpose", prepareTranspose);
  registry.add("expand", prepareExpand);
  registry.add("slice", prepareSlice);
  registry.add("copy", prepareCopy);
}

} // namespace zc::cpu
