//===- Strided.h - walking several tensors of different strides at once -------===//
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace zc::shapes {

/// Higher ranks are refused when a kernel is prepared.
constexpr size_t kMaxRank = 16;

using Dims = std::vector<int64_t>;

/// Row-major strides, in elements.
inline Dims rowMajorStrides(const Dims &dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    strides[i] = stride;
  return strides;
}

/// Strides that read a tensor of shape `dims` as one of shape `result` (numpy broadcasting): 0 along repeated
/// dimensions.
inline Dims broadcastStrides(const Dims &dims, const Dims &result) {
  Dims own = rowMajorStrides(dims), strides(result.size(), 0);
  size_t lead = result.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i)
    strides[lead + i] = dims[i] == 1 ? 0 : own[i];
  return strides;
}

/// Does `dims` broadcast to `result`?
inline bool broadcastsTo(const Dims &dims, const Dims &result) {
  if (dims.size() > result.size())
    return false;
  size_t lead = result.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1 && dims[i] != result[lead + i])
      return false;
  return true;
}

/// N tensors over one index space, each with strides of its own. Dimensions that all tensors walk alike are merged, so
/// that the innermost run is as long as possible. Holds no heap memory: walking allocates nothing.
template <size_t N> class Walk {
public:
  using Offsets = std::array<int64_t, N>;

  /// dims.size() <= kMaxRank; strides[t].size() == dims.size().
  Walk(const Dims &dims, const std::array<Dims, N> &strides) {
    for (size_t i = 0; i < dims.size(); ++i)
      append(dims[i], strides, i);
    if (rank == 0)
      append(1, {}, 0);
    runs = 1;
    for (size_t i = 0; i + 1 < rank; ++i)
      runs *= size[i];
    if (size[rank - 1] == 0)
      runs = 0;
  }

  /// Number and length of innermost runs.
  int64_t numRuns() const { return runs; }
  int64_t runLength() const { return size[rank - 1]; }
  /// Stride of tensor t along a run.
  int64_t runStride(size_t t) const { return step[t][rank - 1]; }

  /// Dimensions after merging, outermost first, and tensor t's stride along dimension i.
  size_t numDims() const { return rank; }
  int64_t dim(size_t i) const { return size[i]; }
  int64_t stride(size_t t, size_t i) const { return step[t][i]; }

  /// Where run `run` begins in tensor t.
  int64_t startOf(int64_t run, size_t t) const {
    int64_t at = 0;
    for (size_t i = rank - 1; i-- > 0; run /= size[i])
      at += run % size[i] * step[t][i];
    return at;
  }

  /// Calls fn(offsets of the run's first elements) for runs [begin, end) in row-major order.
  template <typename Fn> void forRuns(int64_t begin, int64_t end, Fn fn) const {
    if (begin >= end)
      return;
    std::array<int64_t, kMaxRank> index{};
    Offsets at{};
    int64_t rest = begin;
    for (size_t i = rank - 1; i-- > 0; rest /= size[i]) {
      index[i] = rest % size[i];
      for (size_t t = 0; t < N; ++t)
        at[t] += index[i] * step[t][i];
    }
    for (int64_t run = begin; run < end; ++run) {
      fn(static_cast<const Offsets &>(at));
      for (size_t i = rank - 1; i-- > 0;) {
        for (size_t t = 0; t < N; ++t)
          at[t] += step[t][i];
        if (++index[i] < size[i])
          break;
        for (size_t t = 0; t < N; ++t)
          at[t] -= step[t][i] * size[i];
        index[i] = 0;
      }
    }
  }

  /// Calls fn(offsets) for every element.
  template <typename Fn> void forEach(Fn fn) const {
    forRuns(0, runs, [&](const Offsets &start) {
      Offsets at = start;
      for (int64_t i = 0; i < runLength(); ++i) {
        fn(static_cast<const Offsets &>(at));
        for (size_t t = 0; t < N; ++t)
          at[t] += runStride(t);
      }
    });
  }

private:
  void append(int64_t n, const std::array<Dims, N> &strides, size_t dim) {
    if (n == 1 && !strides[0].empty())
      return;
    bool merge = rank > 0;
    for (size_t t = 0; t < N && merge; ++t)
      merge = step[t][rank - 1] == strides[t][dim] * n;
    if (!merge)
      size[rank++] = 1;
    size[rank - 1] *= n;
    for (size_t t = 0; t < N; ++t)
      step[t][rank - 1] = strides[t].empty() ? 0 : strides[t][dim];
  }

  size_t rank = 0;
  int64_t runs = 0;
  std::array<int64_t, kMaxRank> size{};
  std::array<std::array<int64_t, kMaxRank>, N> step{};
};

} // namespace zc::shapes
