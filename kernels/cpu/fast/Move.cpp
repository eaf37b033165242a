// transpose, expand, slice, slice_grad, pad, concat and copy: runs that are contiguous on both sides are copied whole;
// a transpose whose innermost dimension changes goes through small square tiles, so that both sides use whole cache
// lines.
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/MoveShapes.h"

#include <cstring>
#include <numeric>

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
  parallelRanges(threads, bytes, 4096, [&](int64_t begin, int64_t end, int) {
    std::memcpy(as<char>(to) + begin, static_cast<const char *>(from) + begin, static_cast<size_t>(end - begin));
  });
}

/// A move, run by run along the last dimension of both sides.
template <typename T> class Runs {
public:
  explicit Runs(const MoveShape &move)
      : walk(move.dims, {move.outStrides, move.inStrides}), outStart(move.outStart), inStart(move.inStart),
        isWhole(walk.runStride(0) == 1 && walk.runStride(1) == 1) {}

  void copy(void *const *operands, int threads) const {
    const T *x = as<T>(operands[0]) + inStart;
    T *y = as<T>(operands[1]) + outStart;
    const auto bytes = static_cast<size_t>(walk.runLength()) * sizeof(T);
    if (walk.numRuns() == 1 && isWhole)
      return copyBytes(y, x, static_cast<int64_t>(bytes), threads); // all of it is one run
    parallelRanges(threads, walk.numRuns(), 1, [&](int64_t begin, int64_t end, int) {
      walk.forRuns(begin, end, [&](const Walk<2>::Offsets &at) {
        if (isWhole)
          std::memcpy(y + at[0], x + at[1], bytes);
        else
          for (int64_t i = 0; i < walk.runLength(); ++i)
            y[at[0] + i * walk.runStride(0)] = x[at[1] + i * walk.runStride(1)];
      });
    });
  }

private:
  Walk<2> walk;
  int64_t outStart, inStart;
  bool isWhole;
};

/// All of the result, from element `start` of the operand on.
template <typename T> Prepared copyRuns(const Dims &dims, const Dims &strides, int threads, int64_t start = 0) {
  Runs<T> runs({{}, dims, rowMajorStrides(dims), strides, 0, start, false, 0});
  return makeKernel([runs, threads](void *const *operands, const StepContext &) { runs.copy(operands, threads); });
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
    parallelRanges(threads, walk.numRuns(), 1, [&](int64_t begin, int64_t end, int) {
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

/// y = value everywhere, in parts.
template <typename T> void fillWith(T value, void *y, int64_t n, int threads) {
  parallelRanges(threads, n, 4096,
                 [&](int64_t begin, int64_t end, int) { std::fill(as<T>(y) + begin, as<T>(y) + end, value); });
}

Prepared prepareSliceGrad(const KernelSpec &spec) {
  Result<MoveShape> shape = readSliceGrad(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  return withBytes(shape->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const int64_t n = shape->outBytes / static_cast<int64_t>(sizeof(T));
    return makeKernel(
        [runs = Runs<T>(*shape), n, threads = threadsFor(spec.threads, n)](void *const *operands, const StepContext &) {
          fillWith(T{}, operands[1], n, threads);
          runs.copy(operands, threads);
        });
  });
}

Prepared preparePad(const KernelSpec &spec) {
  Result<PadShape> shape = readPad(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  return withStorage(shape->move.dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([runs = Runs<T>(shape->move), n = shape->n, fill = fillValue<T>(shape->value),
                       threads = threadsFor(spec.threads, shape->n)](void *const *operands, const StepContext &) {
      fillWith(fill, operands[1], n, threads);
      runs.copy(operands, threads);
    });
  });
}

/// Operands of an element each, side by side: a cache line of each at a time.
template <typename T> Prepared interleave(int64_t outer, size_t count, int threads) {
  return makeKernel([=](void *const *operands, const StepContext &) {
    T *y = as<T>(operands[count]);
    parallelRanges(threads, outer, kTile<T>, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; row += kTile<T>)
        for (size_t i = 0; i < count; ++i) {
          const T *x = as<T>(operands[i]);
          for (int64_t o = row, last = std::min(end, row + kTile<T>); o < last; ++o)
            y[o * static_cast<int64_t>(count) + static_cast<int64_t>(i)] = x[o];
        }
    });
  });
}

/// Bytes [begin, end) of the operands' rows one after the other.
void joinBytes(const std::vector<int64_t> &bytes, int64_t row, int64_t begin, int64_t end, void *const *operands) {
  char *y = as<char>(operands[bytes.size()]) + begin;
  int64_t outer = begin / row, skipped = begin % row, left = end - begin;
  for (; left > 0; ++outer)
    for (size_t i = 0; i < bytes.size() && left > 0; ++i) {
      const int64_t from = std::min(skipped, bytes[i]), n = std::min(bytes[i] - from, left);
      skipped -= from;
      if (n == 0)
        continue;
      std::memcpy(y, as<char>(operands[i]) + outer * bytes[i] + from, static_cast<size_t>(n));
      y += n;
      left -= n;
    }
}

Prepared prepareConcat(const KernelSpec &spec) {
  Result<ConcatShape> shape = readConcat(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  const std::vector<int64_t> &bytes = shape->bytes;
  const int64_t row = std::accumulate(bytes.begin(), bytes.end(), int64_t(0)), all = shape->outer * row;
  if (all == 0)
    return decline();
  const int threads = threadsFor(spec.threads, all / 4);
  const int64_t element = sizeOf(spec.operands[0].dtype);
  if (std::all_of(bytes.begin(), bytes.end(), [&](int64_t n) { return n == element; }))
    return withBytes(spec.operands[0].dtype,
                     [&](auto tag) { return interleave<TypeOf<decltype(tag)>>(shape->outer, bytes.size(), threads); });
  return makeKernel([bytes, row, all, threads](void *const *operands, const StepContext &) {
    parallelRanges(threads, all, 4096,
                   [&](int64_t begin, int64_t end, int) { joinBytes(bytes, row, begin, end, operands); });
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
  registry.add("slice_grad", prepareSliceGrad);
  registry.add("pad", preparePad);
  registry.add("concat", prepareConcat);
  registry.add("copy", prepareCopy);
}

} // namespace zc::cpu
