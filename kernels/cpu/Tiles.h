//===- Tiles.h - what a kernel's workspace has per thread, and as a whole ------===//
//
// Sizes that the fast kernels cut their workspace by and the formulas in reference/ add up.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Support.h"
#include "kernels/shapes/Shapes.h"
#include "kernels/shapes/Windows.h"

namespace zc::cpu {

/// Threads that get tiles of their own in a workspace, which was planned without knowing how many there are: as many of
/// `tasks` as 32 MiB hold, but two to sixteen.
int tilesFor(int64_t tileBytes, int64_t tasks);

//===-- products -------------------------------------------------------------===//

/// Multiplications of the largest product that is summed in order (MatmulOrdered.h).
constexpr double kOrderedProducts = 1 << 20;
inline bool isOrdered(double multiplications) { return multiplications >= 1 && multiplications <= kOrderedProducts; }

/// fp32 elements of their factors and sums where those of the operands cannot be used.
struct OrderedPieces {
  int64_t lhs, rhs, sums;
  explicit OrderedPieces(const MatmulPartShape &part);
};

/// Panels of the longer side are what threads take.
constexpr int64_t kPanel = 64;

/// 16-bit products are computed in blocks of at most this many rows, columns and terms, widened to fp32.
struct ProductTile {
  static constexpr int64_t kBlock = 384;
  int64_t lhs, rhs, sums; ///< fp32 elements
  explicit ProductTile(const MatmulShape &s);
  int64_t floats() const { return lhs + rhs + sums; }
  /// Of a thread; oneDNN's bf16 kernels keep copies of such blocks too.
  int64_t bytes() const { return floats() * 4 + (int64_t(64) << 10); }
  static int tiles(const MatmulShape &s);
};

/// bf16 products by tiles of registers (fast/MatmulTiles.h): blocks of the right factor, rearranged once for all
/// threads, times rows of the left one that stay in a thread's second cache. What is summed at once depends on the
/// number of terms alone. Enough for each engine that may multiply the tiles (fast/TilesBf16.h): a plan does not know.
struct Bf16Blocks {
  static constexpr int64_t kMostTerms = 3072, kMostColumns = 768, kMostRows = 22 * 48;
  /// Multiples of what engines want: terms of a pass, columns of a block, rows of the left factor; and of such rows the
  /// fewest that any wants.
  static constexpr int64_t kTermStep = 32, kColumnStep = 32, kRowStep = 48, kFewestRows = 8;
  static constexpr int64_t kLeftRows = 144; ///< that a thread rearranges at a time, at least
  static constexpr int kMostThreads = 16;   ///< as tilesFor's
  int64_t passes;                           ///< over the terms
  int64_t terms;                            ///< of a pass
  int64_t rows, columns;
  explicit Bf16Blocks(const MatmulShape &s);
  /// Units, of two terms, of a block of the right factor.
  int64_t right() const { return columns * terms / 2; }
  /// Of all blocks, one behind the other: `begin` those of the block from that column and term on.
  static int64_t unitsOf(const MatmulShape &s) {
    return Workspace::times(roundUp(s.n, kColumnStep), roundUp(s.k, kTermStep) / 2);
  }
  static int64_t begin(const MatmulShape &s, int64_t column, int64_t columns, int64_t term) {
    return column * (roundUp(s.k, kTermStep) / 2) + roundUp(columns, kColumnStep) * (term / 2);
  }
  /// From `count` rows of the left factor to the next, in units: no multiple of a page, or a cache had all in one set.
  int64_t leftStride(int64_t count) const { return (terms + 4) / 2 * count; }
  /// Of a thread: as much as of the most terms, but no more than four times as many.
  int64_t leftRows() const {
    return std::min(
        std::clamp(kLeftRows * kMostTerms / std::max(terms, kTermStep) / kRowStep * kRowStep, kLeftRows, 4 * kLeftRows),
        std::max(kLeftRows, roundUp(rows, kRowStep)));
  }
  int64_t left() const { return leftStride(leftRows()); }
  /// fp32 sums that wait for the next pass.
  int64_t sums() const { return passes == 1 ? 0 : rows * columns; }
  int64_t bytes() const {
    return Workspace::sum(Workspace::bytesOf<uint32_t>(right()), Workspace::bytesOf<float>(sums()),
                          Workspace::bytesOf<uint32_t>(left() * threads));
  }
  int threads; ///< at most
};

/// What the fast versions of a product work in: where it is summed in order, or else.
int64_t productBytes(const MatmulPartShape &part, bool isSummedInOrder);

//===-- attention ------------------------------------------------------------===//

// Products of heads are made of tiles of at most this many rows and columns (fast/MicroKernel.h).
constexpr int64_t kTileRows = 32, kTileColumns = 32;

/// Rows and columns of scores that a thread has at a time.
constexpr int64_t kQueryBlock = 128, kKeyBlock = 256;

/// Multiplications that are worth another thread, and another thread's pieces in the plan.
constexpr int64_t kThreadProducts = 1 << 16;

/// Parts that are cut for threads: at most `heads` of each sample.
inline int64_t attentionParts(const AttentionShape &s, int64_t heads) {
  int64_t products = Workspace::times(s.batch, s.heads, s.queries, s.keys, Workspace::sum(s.depth, s.valueDepth));
  return std::clamp<int64_t>(products / kThreadProducts, 1, std::max<int64_t>(1, Workspace::times(s.batch, heads)));
}

/// Which heads of keys a thread takes one after the other: those whose queries add to the same elements of the mask's
/// gradient, by batch and by head, or else one.
struct AttentionGroups {
  explicit AttentionGroups(const AttentionShape &s)
      : groups((s.hasMaskGrad ? s.maskBatches() : s.batch) * (s.hasMaskGrad && s.maskHeads() == 1 ? 1 : s.keyHeads)),
        members(groups == 0 ? 0 : s.batch * s.keyHeads / groups),
        isAcross(s.hasMaskGrad && s.maskBatches() == 1 && groups > 1) {}
  /// Of all batches.
  int64_t keyHead(int64_t group, int64_t member) const {
    return isAcross ? member * groups + group : group * members + member;
  }
  int64_t groups, members;

private:
  bool isAcross; ///< a head of each batch
};

/// A vector of drawn numbers is four of floats; the first ones may belong to what stands before.
constexpr int64_t kDropoutRoom = 128;
/// Of a row of dropout's factors.
inline int64_t dropoutWidth(const AttentionShape &s, int64_t columns) {
  return s.dropout == 0 ? 0 : columns + kDropoutRoom;
}

/// What attention has per thread, fp32 elements from its beginning: linear in the number of keys, whatever that of
/// queries. Factors of products have room for terms in fp32; rows are padded to whole tiles.
struct AttentionPieces {
  int64_t depth, valueDepth, columns;                   ///< strides of rows
  int64_t keyPanels, valuePanels;                       ///< of a head
  int64_t queries, scores, sums, tops, totals, staging; ///< of a block of queries
  int64_t factors;                                      ///< dropout's, of a row of scores
  int64_t floats;
  int64_t parts; ///< that threads share
  explicit AttentionPieces(const AttentionShape &s);
  int tiles() const { return tilesFor(Workspace::bytesOf<float>(floats), parts); }
};

/// Of its gradient.
struct AttentionGradPieces {
  int64_t depth, valueDepth, columns;
  int64_t keysTransposed, valuesTransposed, keyPanels, dKeys, dValues;
  int64_t queries, queryPanels, grads, gradPanels, dQueries, scores, slopes, deltas, normals, staging;
  int64_t factors, factorStride; ///< of two rows, and so
  int64_t growth, growthStride;  ///< what scores grow by under a softcap
  int64_t floats;
  int64_t parts;
  explicit AttentionGradPieces(const AttentionShape &s);
  int tiles() const { return tilesFor(Workspace::bytesOf<float>(floats), parts); }
};

/// Of either, of all threads.
template <typename Pieces> int64_t tileBytes(const Pieces &pieces) {
  return Workspace::bytesOf<float>(Workspace::times(pieces.floats, pieces.tiles()));
}

//===-- convolutions ---------------------------------------------------------===//

/// The three tensors with channels in blocks of up to 16, and what oneDNN works in. f16 is computed in fp32, bf16 on
/// some CPUs.
int64_t convAllowance(const ConvShape &s, bool isWeightGrad);
/// The weight in such blocks, in the type that most CPUs compute it in.
int64_t convKept(const ConvShape &s);

/// The gradient of a weight as one product (fast/ConvColumns.cpp): of [channels, places] by [places, columns], in
/// blocks of columns.
struct ConvColumns {
  /// Are windows larger than the image, and not too many? With AVX-512 oneDNN has a kernel for that: then only where it
  /// rearranges more than it multiplies.
  static bool serves(const ConvShape &s, bool hasAvx512);
  int64_t places, columns; ///< windows of all images; channels and taps
  int64_t width, parts;    ///< columns of a block, and blocks
  int64_t grads;           ///< fp32 elements of the left factor, in tiles of rows
  int64_t floats;          ///< a thread's, of a block, of a panel in its own type and of the sums of a tile's rows
  int64_t offsets;         ///< a thread's, of a panel's columns in an image
  explicit ConvColumns(const ConvShape &s);
  int tiles() const { return tilesFor(Workspace::bytesOf<float>(floats), parts); }
  int64_t bytes(const ConvShape &s) const;
};

//===-- others ---------------------------------------------------------------===//

/// fp32 elements of a thread's part of dScale, and of dBias: whole cache lines.
inline int64_t normGradTile(const NormShape &s) { return (s.n + 15) / 16 * 16; }
inline int normGradTiles(const NormShape &s) { return tilesFor(Workspace::times(normGradTile(s), 8), s.rows); }

inline int gatherGradTiles(const GatherShape &s) {
  return tilesFor(Workspace::times(s.inner, 4), Workspace::times(s.outer, s.n));
}
/// Rows of fp32 that a thread works in: sums, but of fp32 those are the result, and, onto something, these sums
/// rounded.
inline int64_t gatherGradRows(const KernelSpec &spec) {
  return int64_t(spec.operands[0].dtype != DType::f32) + int64_t(addsOnto(spec));
}

/// A plane of fp32 sums per thread, of 16-bit tensors.
inline int planeTiles(const PoolShape &s) { return tilesFor(Workspace::times(s.windows.inPlane, 4), s.planes); }

/// Of channels-last tensors: fp32 sums of this many channels of an image.
constexpr int64_t kPoolBlock = 64;
inline int64_t poolBlockTile(const PoolShape &s) {
  return (Workspace::times(s.windows.inPlane, std::min(kPoolBlock, s.order.channels)) + 15) / 16 * 16;
}
inline int poolBlockTiles(const PoolShape &s) {
  int64_t blocks = quotientUp(s.order.channels, kPoolBlock);
  return tilesFor(Workspace::times(poolBlockTile(s), 4),
                  s.order.channels == 0 ? 0 : Workspace::times(s.planes / s.order.channels, blocks));
}

/// How channels-last batch norm cuts its rows, N * spatial, and what it works in.
struct BatchNormRows {
  int64_t rows, channels, blockRows, parts;
  explicit BatchNormRows(const BatchNormShape &s)
      : rows(Workspace::times(s.batch, s.inner)), channels(s.channels),
        blockRows(std::clamp<int64_t>(16384 / std::max<int64_t>(s.channels, 1), 8, 64)),
        parts(std::min<int64_t>(32, quotientUp(rows, blockRows))) {}
  int64_t totals() const { return Workspace::times(3, parts, channels); } ///< doubles: sums of each part
  int64_t room() const { return Workspace::times(2, parts, channels); }   ///< floats: those of its block
  int64_t table() const { return Workspace::times(4, channels); }         ///< floats: what a channel is multiplied by
  int64_t block() const { return Workspace::times(blockRows, channels); } ///< elements
  /// Blocks that threads have at a time, where one has to be computed.
  int tiles() const { return tilesFor(Workspace::times(block(), 4), parts); }
  int64_t bytes() const {
    return Workspace::sum(Workspace::bytesOf<double>(totals()), Workspace::bytesOf<float>(room()),
                          Workspace::bytesOf<float>(table()));
  }
};

} // namespace zc::cpu
