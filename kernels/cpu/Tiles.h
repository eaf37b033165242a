//===- Tiles.h - what a kernel's workspace has per thread, and as a whole ------===//
//
// Sizes that the fast kernels cut their workspace by and workspaceBytes() adds up.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"
#include "kernels/cpu/Windows.h"

namespace zc::cpu {

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

//===-- attention ------------------------------------------------------------===//

constexpr int64_t kQueryBlock = 128; ///< rows of scores that a thread has at a time
/// fp32 elements of a thread: scores of a block of queries, and widened heads of 16-bit types.
int64_t attentionTile(const AttentionShape &s);
int64_t attentionGradTile(const AttentionShape &s);
inline int attentionTiles(const AttentionShape &s) { return tilesFor(attentionTile(s) * 4, s.batch * s.heads); }
inline int attentionGradTiles(const AttentionShape &s) {
  return tilesFor(attentionGradTile(s) * 4, s.batch * s.keyHeads);
}

//===-- others ---------------------------------------------------------------===//

/// fp32 elements of a thread's part of dScale, and of dBias: whole cache lines.
inline int64_t normGradTile(const NormShape &s) { return (s.n + 15) / 16 * 16; }
inline int normGradTiles(const NormShape &s) { return tilesFor(normGradTile(s) * 8, s.rows); }

inline int gatherGradTiles(const GatherShape &s) { return tilesFor(s.inner * 4, s.outer * s.n); }

/// A plane of fp32 sums per thread, of 16-bit tensors.
inline int planeTiles(const PoolShape &s) { return tilesFor(s.windows.inPlane * 4, s.planes); }

} // namespace zc::cpu
