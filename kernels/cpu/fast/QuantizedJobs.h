//===- QuantizedJobs.h - blocks of quantized pieces as work for threads ----------===//
#pragma once

#include "kernels/Quantized.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {

/// Elements of a block that are kept between its scale and its values where they had to be computed: longer ones are
/// left to plain loops.
constexpr int64_t kKept = 16384;

/// Blocks of one piece that are quantized.
struct QuantizeJob {
  QuantizedPiece piece;
  int64_t first, last;     ///< blocks [first, last)
  const void *plain;       ///< the piece in f32, bf16 or f16, or null
  const uint8_t *source;   ///< the piece of the first source, or null
  int64_t stride, sources; ///< bytes from source to source
  void *residual;          ///< of the piece, or null
  float beta;              ///< of the residual
  uint8_t *out;            ///< the quantized piece
};

/// Blocks that become plain numbers.
struct DequantizeJob {
  QuantizedPiece piece;
  int64_t first, last;
  const uint8_t *source;
  int64_t stride, sources;
  void *out; ///< the piece in f32, bf16 or f16
  bool isSum, accumulate;
  float scale;
  bool streams; ///< `out` is written past the caches: aligned to 64 bytes, as its blocks are
};

/// fn(piece, first, last) for runs of blocks that make up all pieces, shared among threads.
template <typename Fn> void forBlocks(const QuantizeShape &s, int threads, Fn fn) {
  int64_t blocks = s.piece.blocks();
  parallelRanges(threadsFor(threads, s.pieces * s.piece.elements), s.pieces * blocks, 1,
                 [&](int64_t begin, int64_t end, int) {
                   for (int64_t unit = begin, next; unit < end; unit = next) {
                     int64_t piece = unit / blocks;
                     next = std::min(end, (piece + 1) * blocks);
                     fn(piece, unit - piece * blocks, next - piece * blocks);
                   }
                 });
}

} // namespace zc::cpu
