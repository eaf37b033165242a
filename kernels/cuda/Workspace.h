//===- Workspace.h - bytes that the GPU's kernels work in ----------------------===//
//
// Formulas of shapes, used by the kernels that take the bytes and by the compiler that plans them, on machines without
// CUDA too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/shapes/HeadShapes.h"
#include "kernels/shapes/MoveShapes.h"
#include "kernels/shapes/Shapes.h"
#include "kernels/shapes/Windows.h"

namespace zc::cuda {

using Space = shapes::Workspace; // whose sums and products saturate

/// Of a radix sort of n pairs of 32-bit numbers: the pairs once more, histograms, and a look-back of 1 KiB per tile of
/// some thousand. CUB is asked when it sorts, and refuses to with less.
inline int64_t sortBytes(int64_t n) { return Space::sum(64 * 1024, Space::times(9, n)); }

/// Into how many parts rows are cut for sums over them.
constexpr int64_t rowParts(int64_t rows) { return rows < 64 ? 1 : rows < 4096 ? rows / 64 : 64; }

/// Parts that are added in one go: a thread for each result adds so many, one after the other.
constexpr int64_t kPartsAtOnce = 32;
/// How many sums are left of so many parts where every kPartsAtOnce of them are added.
constexpr int64_t partsLeft(int64_t parts) {
  return parts <= 2 * kPartsAtOnce ? parts : (parts + kPartsAtOnce - 1) / kPartsAtOnce;
}

/// Threads of a block of a column sum, and neighbouring columns that each has at most.
constexpr int kReduceColumns = 128, kReducePack = 4;

/// How a reduction is cut: each of `results` elements is made of `parts` sums over n / parts elements, enough to fill a
/// GPU, none shorter than 64 (columns) or 4096 elements.
struct ReduceCut {
  int64_t results, n, parts;
  bool areColumns; ///< neighbouring threads have neighbouring results
  explicit ReduceCut(const shapes::ReduceShape &shape);
  /// Sums have 8 bytes, whatever the element type.
  int64_t bytes() const { return Space::times(8, results, Space::sum(parts, partsLeft(parts))); }
};

/// Of n pairs of 32-bit numbers, sorted beside themselves.
inline int64_t pairsBytes(int64_t n) { return Space::sum(Space::times(4, n, sizeof(int32_t)), sortBytes(n)); }

inline int64_t gatherGradBytes(const shapes::GatherShape &s) { return pairsBytes(s.count); }
inline int64_t crossEntropyBytes(const shapes::CrossEntropyShape &s) { return Space::times(s.rows, sizeof(double)); }
/// What cuBLASLt may have: sums in fp32 of parts of the products, 8 of each, and never more than its documentation asks
/// for on any GPU.
inline int64_t matmulBytes(int64_t results) {
  constexpr int64_t kEnough = int64_t(32) << 20;
  return results > kEnough / 32 ? kEnough : 32 * results;
}
inline int64_t crossEntropyGradBytes(const shapes::CrossEntropyShape &) { return sizeof(double); }
/// Of a head with its loss: a chunk of logits, and what its kernels hand on.
struct HeadSpace {
  int64_t scratch;                              ///< bytes that products work in
  int64_t logits;                               ///< of the operands' type
  int64_t losses, factors, biasParts, biasSums; ///< fp64; sums of each part, which are joined in the end
  int64_t weightSums;                           ///< fp32, of 16-bit gradients
  explicit HeadSpace(const shapes::HeadShape &s);
  int64_t bytes(const shapes::HeadShape &s) const;
};

/// How the gradient of a norm is cut.
struct NormGradCut {
  int64_t results;   ///< sums over the rows: of the scale's gradient, and the bias'
  int64_t parts;     ///< of rows that are read again
  int64_t heldParts; ///< of rows that are held in registers, a block for each; 0: they are too long
  NormGradCut(int64_t rows, int64_t n, int64_t elementBytes, int64_t sums);
  int64_t joined() const { return partsLeft(heldParts); }
  /// Sums in fp64, of `parts` or joined(); those of heldParts, in fp32, lie behind.
  int64_t sums() const { return Space::times(results, std::max(parts, joined())); }
  int64_t bytes() const { return Space::sum(Space::times(8, sums()), Space::times(4, results, heldParts)); }
};
inline int64_t normGradBytes(const shapes::NormShape &s, int64_t sums) {
  return NormGradCut(s.rows, s.n, sizeOf(s.dtype), sums).bytes();
}

/// Threads that hold a row of so many packs in registers: a warp four each at most, a block two, of which a norm's
/// gradient has four rows and two rows of sums; 0: it is too long.
constexpr int threadsThatHold(int64_t packs) {
  return packs <= 4 * 32 ? 32 : packs <= 2 * 128 ? 128 : packs <= 2 * 256 ? 256 : packs <= 2 * 512 ? 512 : 0;
}

/// Into how many parts a channel's sums are cut: enough to fill a GPU, none shorter than 4096 elements, which a block
/// adds, or, channels last, than 128, which a thread does.
inline int64_t channelParts(const shapes::BatchNormShape &s) {
  const int64_t elements = s.channelsLast ? 128 : 4096, enough = s.channelsLast ? 256 * 1024 : 1024;
  const int64_t most = std::max<int64_t>(1, enough / std::max<int64_t>(1, s.channels));
  return std::max<int64_t>(1, std::min(Space::times(s.batch, s.inner) / elements, most));
}
/// `sums` over the elements of each channel, in parts and then joined, and three numbers of it.
inline int64_t batchNormBytes(const shapes::BatchNormShape &s, int64_t sums) {
  return Space::times(sums * (channelParts(s) + 1) + 3, s.channels, sizeof(double));
}

/// Does our own attention multiply on tensor cores?
inline bool isOnTensorCores(const shapes::AttentionShape &s) {
  return (s.dtype == DType::bf16 || s.dtype == DType::f16) && s.stat == DType::f32 &&
         std::max(s.depth, s.valueDepth) <= 128 && std::max(s.queries, s.keys) <= int64_t(1) << 28;
}
/// Of its gradient: two numbers of each row.
inline int64_t coreGradBytes(const shapes::AttentionShape &s) {
  return Space::times(2 * sizeof(float), s.batch, s.heads, s.queries);
}

/// Queries or keys that a block of our own attention takes at once, where it does not.
constexpr int64_t kAttentionTile = 8;

/// How attention is cut into tiles, and how many of them are at work at once: as many as have their scores in 32 MiB.
struct AttentionTiles {
  int64_t size; ///< bytes of a score
  int64_t rows, queryTiles, keyTiles, queriesAtOnce, keysAtOnce;
  int64_t queryScores, keyScores; ///< of a tile; for the gradients of keys there are two
  explicit AttentionTiles(const shapes::AttentionShape &s);
  int64_t bytes() const { return Space::times(size, queriesAtOnce, queryScores); }
  int64_t gradBytes() const {
    return Space::times(
        size, Space::sum(rows, rows,
                         std::max(Space::times(queriesAtOnce, queryScores), Space::times(keysAtOnce, keyScores))));
  }
};

} // namespace zc::cuda
