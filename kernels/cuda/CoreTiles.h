//===- CoreTiles.h - tiles of attention's rows, for products on tensor cores -----------------===//
//
// Each warp of a block holds rows of one side, 16 or 32, as A of m16n8k16 in registers; rows of the other side pass
// through memory that the block shares, two tiles of each tensor in turn: one is computed with while the next is on its
// way, a barrier for each. What is held comes beside the first of them. What becomes of a product's sums (P, dS) is A
// of the next product as it lies in the lanes, so scores never leave registers. (Dao: "FlashAttention-2", 2023; a
// warp's rows are its own throughout, so warps wait for tiles alone.)
//
// A tile's rows have D numbers of 16 bits, zeroes behind a head's own. Sixteen bytes of a row lie where ldmatrix, which
// reads those of eight rows at once, finds each in banks of its own.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/AttentionPlaces.h"
#include "kernels/cuda/Warp.h"
#include "kernels/cuda/Workspace.h"

namespace zc::cuda {

constexpr double kLog2E = 1.4426950408889634074, kLn2 = 0.6931471805599453094;

/// How a block computes with rows of D numbers: 32, 64 or 128.
template <int D> struct CoreCut {
  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kTall = D <= 64 ? 2 : 1; ///< times 16 rows that a warp holds: what registers have room for
  static constexpr int kOfWarp = 16 * kTall, kOfBlock = kWarps * kOfWarp;
  static constexpr int kPassing = D <= 64 ? 64 : 32; ///< rows of a tile that passes
  static constexpr int kSteps = kPassing / 16;
  static constexpr int kPassingBytes = 2 * D * kPassing, kHeldBytes = 2 * D * kOfBlock;
  /// What passes at once: tiles of two tensors, and two numbers of each row.
  static constexpr int kStageBytes = 2 * kPassingBytes + 2 * 4 * kPassing;
  static constexpr int kStages = 2; ///< in turn
  /// Where rows of tensor `held` come that warps hold: of the first one where nothing passes yet, behind the first
  /// tile.
  static constexpr int heldAt(int held) {
    return held == 0 ? kStageBytes : kStages * kStageBytes + (held - 1) * kHeldBytes;
  }
  static_assert(kHeldBytes <= kStageBytes);
  /// Bytes that a block shares which holds rows of so many tensors: with two blocks of 3 on a multiprocessor, 134 KB.
  static constexpr int sharedWith(int held) { return heldAt(held); }
};

/// Bytes from a tile's beginning to 16 bytes of one of its rows.
template <int D> ZC_HD int placeInTile(int row, int sixteenth) {
  const int turn = D == 32 ? row / 2 % 4 : row % 8;
  return row * 2 * D + ((sixteenth ^ turn) << 4);
}

/// A tile where the block shares it, as a warp reads it.
template <typename Warp, int D> struct CoreTile {
  using Fragment = typename Warp::Fragment;
  typename Warp::Address first;
  ZC_HD explicit CoreTile(const void *shared) : first(Warp::addressOf(shared)) {}

  /// Rows row.. as A, [16 x 16] from `column` on.
  ZC_HD void rows(const Warp &warp, int row, int column, Fragment &to) const {
    warp.template load<false>(to, [&](int lane) { return at(row + lane % 16, column / 8 + lane / 16); });
  }
  /// Rows row.. as B of a sum over rows: twice [16 rows x 8 columns].
  ZC_HD void sumOfRows(const Warp &warp, int row, int column, Fragment &to) const {
    warp.template load<true>(to, [&](int lane) { return at(row + lane % 16, column / 8 + lane / 16); });
  }
  /// Rows row.. as B of dot products with them: twice [16 columns x 8 rows].
  ZC_HD void dotsWithRows(const Warp &warp, int row, int column, Fragment &to) const {
    warp.template load<false>(to,
                              [&](int lane) { return at(row + lane / 16 * 8 + lane % 8, column / 8 + lane / 8 % 2); });
  }

private:
  ZC_HD typename Warp::Address at(int row, int sixteenth) const { return first + placeInTile<D>(row, sixteenth); }
};

/// Sums of 16 kTall rows and 16 columns or rows of the other side, [tall][half] of m16n8.
template <typename Warp, int D> using CoreSums = typename Warp::template Held<float, 4>[CoreCut<D>::kTall][2];
/// Rows that a warp holds.
template <typename Warp, int D> using CoreRows = typename Warp::Fragment[CoreCut<D>::kTall][D / 16];
/// What it makes of them: D columns.
template <typename Warp, int D> using CoreResults = typename Warp::template Held<float, 4>[CoreCut<D>::kTall][D / 8];

template <int D, typename Warp> ZC_HD void clear(const Warp &warp, CoreResults<Warp, D> &results) {
  warp.forLanes([&](int, int at) {
    ZC_UNROLL
    for (int tall = 0; tall < CoreCut<D>::kTall; ++tall)
      ZC_UNROLL
    for (int n = 0; n < D / 8; ++n)
      ZC_UNROLL
    for (int e = 0; e < 4; ++e)
      results[tall][n].of[at][e] = 0;
  });
}

/// f(at, tall, half, e, row, other) for the sums that a piece of code holds: of sums[tall][half].of[at][e], which row
/// of the warp's it is, and which of the 16 others.
template <int D, typename Warp, typename F> ZC_HD void forSums(const Warp &warp, const F &f) {
  warp.forLanes([&](int lane, int at) {
    ZC_UNROLL
    for (int tall = 0; tall < CoreCut<D>::kTall; ++tall)
      ZC_UNROLL
    for (int half = 0; half < 2; ++half)
      ZC_UNROLL
    for (int e = 0; e < 4; ++e)
      f(at, tall, half, e, tall * 16 + lane / 4 + e / 2 * 8, half * 8 + lane % 4 * 2 + e % 2);
  });
}

template <int D, typename Warp> ZC_HD void clearSums(const Warp &warp, CoreSums<Warp, D> &sums) {
  forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) { sums[tall][half].of[at][e] = 0; });
}

/// sums = rows that are held * rows first.. of the tile, turned.
template <typename T, int D, typename Warp>
ZC_HD void multiplyRows(const Warp &warp, const CoreRows<Warp, D> &held, const CoreTile<Warp, D> &tile, int first,
                        CoreSums<Warp, D> &sums) {
  clearSums<D>(warp, sums);
  ZC_UNROLL
  for (int k = 0; k < D / 16; ++k) {
    typename Warp::Fragment pair;
    tile.dotsWithRows(warp, first, 16 * k, pair);
    ZC_UNROLL
    for (int half = 0; half < 2; ++half)
      ZC_UNROLL
    for (int tall = 0; tall < CoreCut<D>::kTall; ++tall)
      warp.template multiply<T>(sums[tall][half], held[tall][k], pair, half);
  }
}

/// results += weights * rows first.. of the tile; weights are rounded to T.
template <typename T, int D, typename Warp>
ZC_HD void addWeightedRows(const Warp &warp, const CoreSums<Warp, D> &weights, const CoreTile<Warp, D> &tile, int first,
                           CoreResults<Warp, D> &results) {
  constexpr int kTall = CoreCut<D>::kTall;
  typename Warp::Fragment rounded[kTall];
  warp.forLanes([&](int, int at) {
    ZC_UNROLL
    for (int tall = 0; tall < kTall; ++tall)
      ZC_UNROLL
    for (int m = 0; m < 4; ++m) {
      const float(&pair)[4] = weights[tall][m / 2].of[at];
      rounded[tall].of[at][m] = pairOf<T>(pair[m % 2 * 2], pair[m % 2 * 2 + 1]);
    }
  });
  ZC_UNROLL
  for (int n = 0; n < D / 16; ++n) {
    typename Warp::Fragment pair;
    tile.sumOfRows(warp, first, 16 * n, pair);
    ZC_UNROLL
    for (int half = 0; half < 2; ++half)
      ZC_UNROLL
    for (int tall = 0; tall < kTall; ++tall)
      warp.template multiply<T>(results[tall][2 * n + half], rounded[tall], pair, half);
  }
}

/// Rows of a head in memory, of which a block takes some.
template <typename T> struct CoreSource {
  const T *first; ///< of the rows that are taken
  int64_t stride;
  int count, depth; ///< how many there are, of how many numbers
};

/// Copies N rows into a tile: 16 bytes at a time where they are `packed`, else number by number.
template <int D, int N, typename T, typename Block, typename Copies>
ZC_HD void bringRows(Block &block, Copies &copies, char *tile, const CoreSource<T> &from, bool packed) {
  constexpr int kWide = D / 8, kAtOnce = CoreCut<D>::kThreads / kWide;
  block.forEach(CoreCut<D>::kThreads, [&](int64_t thread) {
    const int sixteenth = static_cast<int>(thread) % kWide, first = static_cast<int>(thread) / kWide;
    const int left = from.depth - 8 * sixteenth;
    auto copyAll = [&](const auto &copy) {
      ZC_UNROLL
      for (int row = first; row < first + N; row += kAtOnce)
        copy(tile + placeInTile<D>(row, sixteenth), from.first + row * from.stride + 8 * sixteenth,
             row < from.count ? left : 0);
    };
    if (packed)
      return copyAll([&](char *to, const T *source, int there) {
        copies.template copy<16>(to, there > 0 ? source : from.first, there > 0);
      });
    ZC_ROLLED
    for (int e = 0; e < 8; ++e)
      copyAll(
          [&](char *to, const T *source, int there) { reinterpret_cast<T *>(to)[e] = e < there ? source[e] : T{0}; });
  });
}

/// Rows that the block's warps hold, of so many tensors; passTiles() waits for them.
template <int D, typename T, typename Block, typename Copies, int N>
ZC_HD void bringHeld(Block &block, Copies &copies, const CoreSource<T> (&tensors)[N], bool packed) {
  using Cut = CoreCut<D>;
  ZC_UNROLL
  for (int held = 0; held < N; ++held)
    bringRows<D, Cut::kOfBlock>(block, copies, static_cast<char *>(block.shared()) + Cut::heldAt(held), tensors[held],
                                packed);
  copies.commit();
}

/// take() when rows that are held have come, while the first tiles are on their way, and then use(at, stage) for what
/// passes, `at` and then next(at) while isThere(at); bring(at, stage) has copied its tiles.
template <int D, typename Block, typename Copies, typename At, typename IsThere, typename Next, typename Bring,
          typename Take, typename Use>
ZC_HD void passTiles(Block &block, Copies &copies, At at, const IsThere &isThere, const Next &next, const Bring &bring,
                     const Take &take, const Use &use) {
  char *stages = static_cast<char *>(block.shared());
  if (isThere(at))
    bring(at, stages);
  copies.commit();
  copies.template wait<1>();
  block.sync();
  take();
  for (int turn = 0; isThere(at); turn ^= 1) {
    copies.template wait<0>();
    block.sync(); // these are there, and nobody reads the others, or what was held there, any more
    const At then = next(at);
    if (isThere(then))
      bring(then, stages + (turn ^ 1) * CoreCut<D>::kStageBytes);
    copies.commit();
    use(at, stages + turn * CoreCut<D>::kStageBytes);
    at = then;
  }
}

/// Rows that a warp holds, of those of the block in a tile.
template <int D, typename Warp>
ZC_HD void takeRows(const Warp &warp, const CoreTile<Warp, D> &tile, CoreRows<Warp, D> &held) {
  ZC_UNROLL
  for (int tall = 0; tall < CoreCut<D>::kTall; ++tall)
    ZC_UNROLL
  for (int k = 0; k < D / 16; ++k)
    tile.rows(warp, warp.index * CoreCut<D>::kOfWarp + 16 * tall, 16 * k, held[tall][k]);
}

/// factor(at, tall, lower) * results, of those of the warp's rows that are among `count` of the block's, and of their
/// numbers that are among `depth`. lower: 1 of rows that are 8 further down.
template <int D, typename T, typename Warp, typename F>
ZC_HD void writeRows(const Warp &warp, const CoreResults<Warp, D> &results, T *to, int64_t stride, int count, int depth,
                     bool packed, const F &factor) {
  warp.forLanes([&](int lane, int at) {
    ZC_UNROLL
    for (int tall = 0; tall < CoreCut<D>::kTall; ++tall)
      ZC_UNROLL
    for (int lower = 0; lower < 2; ++lower) {
      const int row = warp.index * CoreCut<D>::kOfWarp + tall * 16 + lane / 4 + lower * 8;
      if (row >= count)
        continue;
      const float by = factor(at, tall, lower);
      T *own = to + row * stride;
      ZC_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        const int column = n * 8 + lane % 4 * 2;
        const float *sums = results[tall][n].of[at] + lower * 2;
        const uint32_t pair = pairOf<T>(by * sums[0], by * sums[1]);
        if (packed && column < depth)
          *reinterpret_cast<uint32_t *>(own + column) = pair;
        if (!packed && column < depth)
          own[column] = T{static_cast<uint16_t>(pair)};
        if (!packed && column + 1 < depth)
          own[column + 1] = T{static_cast<uint16_t>(pair >> 16)};
      }
    }
  });
}

/// Does every row of the heads begin at a multiple of 16 bytes, and end at one?
template <typename Rows> bool isPackedRows(const Rows &rows, int64_t depth) {
  return depth % 8 == 0 && rows.batch % 8 == 0 && rows.head % 8 == 0 && rows.row % 8 == 0 &&
         reinterpret_cast<uintptr_t>(rows.first) % 16 == 0;
}

/// fn(integral_constant<int, D>) of rows of so many numbers.
template <typename Fn> void withColumns(int64_t depth, const Fn &fn) {
  if (depth <= 32)
    fn(std::integral_constant<int, 32>());
  else if (depth <= 64)
    fn(std::integral_constant<int, 64>());
  else
    fn(std::integral_constant<int, 128>());
}

} // namespace zc::cuda
