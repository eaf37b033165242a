//===- Segments.h - work on the sources of one row, in order, without atomics ---------===//
//
// Pairs (row, source) are sorted by row, stably; a thread per first pair of a row and per element goes through the
// row's sources. The same bits every time, and those of a CPU that takes sources in order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"

namespace zc::cuda {

using namespace formula;

/// A source without a row.
constexpr int32_t kNowhere = INT32_MAX;

/// Where pairs and their sort lie in a workspace of pairsBytes(n).
class Pairs {
public:
  Pairs(void *workspace, int64_t n)
      : rows(static_cast<int32_t *>(workspace)), sources(rows + 2 * n), space(sources + 2 * n), n(n) {}
  int32_t *const rows, *const sources;
  /// Sorted by row; those of one row in the order of sources.
  template <typename Launcher> void sort(const Launcher &launch) const { launch.sortPairs(rows, sources, n, space); }
  const int32_t *sortedRows() const { return rows + n; }
  const int32_t *sortedSources() const { return sources + n; }

private:
  void *space;

public:
  const int64_t n;
};

/// rowOf(source, frame): a row, or -1.
template <typename RowOf> struct PairBody {
  RowOf rowOf;
  int32_t *rows, *sources;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    forElements(block, index, n, [&](int64_t i) {
      int64_t row = rowOf(i, frame);
      rows[i] = row < 0 ? kNowhere : static_cast<int32_t>(row);
      sources[i] = static_cast<int32_t>(i);
    });
  }
};

/// Sorted pairs of all sources.
template <typename Launcher, typename RowOf> Pairs sortedPairs(const Launcher &launch, int64_t n, const RowOf &rowOf) {
  Pairs pairs(launch.workspace(), n);
  overElements(launch, n, PairBody<RowOf>{rowOf, pairs.rows, pairs.sources, n});
  pairs.sort(launch);
  return pairs;
}

/// Adds the sources of a row.
template <typename T> struct SumSources {
  using Value = Sum<T>;
  ZC_HD Value begin(T) const { return 0; }
  ZC_HD Value next(Value value, T source) const { return value + static_cast<Sum<T>>(load(source)); }
  ZC_HD T end(Value value) const { return storeSum<T>(value); }
};

/// y[row][j] = what `fold` makes of it and of x[source][j] over the row's sources.
template <typename T, typename Fold> struct FoldBody {
  const T *x;
  T *y;
  const int32_t *rows, *sources; ///< sorted
  int64_t n, inner;
  Fold fold;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n * inner, [&](int64_t i) {
      int64_t p = i / inner, j = i % inner;
      int32_t row = rows[p];
      if (row == kNowhere || (p > 0 && rows[p - 1] == row))
        return;
      T &target = y[row * inner + j];
      auto value = fold.begin(target);
      for (int64_t k = p; k < n && rows[k] == row; ++k)
        value = fold.next(value, x[sources[k] * inner + j]);
      target = fold.end(value);
    });
  }
};

template <typename Launcher, typename T, typename Fold>
void foldRows(const Launcher &launch, const Pairs &pairs, const T *x, T *y, int64_t inner, Fold fold) {
  overElements(launch, pairs.n * inner,
               FoldBody<T, Fold>{x, y, pairs.sortedRows(), pairs.sortedSources(), pairs.n, inner, fold});
}

/// May rows and sources be numbers of 32 bits?
inline bool arePairs(int64_t rows, int64_t sources) { return rows < kNowhere && sources < kNowhere; }

} // namespace zc::cuda
