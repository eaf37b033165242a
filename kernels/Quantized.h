//===- Quantized.h - the bytes of a block-quantized piece -----------------------===//
//
// ZeRO++ (arXiv 2306.10209, section 3.1): `elements` numbers in blocks, symmetric, one fp32 scale per block. A piece is
// one run of bytes, so that one collective moves values and scales together:
//
//   values    int8: one byte each; int4: two per byte, the first in the low half, both in two's complement
//   0 to 3 bytes of zero, to a multiple of 4
//   scales    fp32, one per block; the last block may be shorter than the others
//
// The compiler sizes buffers with it, the kernels read and write them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace zc {

/// Elements per scale when nothing else is asked for. Scales add 2.6 % to what ZeRO++ sends between nodes; gradients
/// need the finer blocks (examples/gpt/README.md has the losses).
constexpr int64_t kWeightBlock = 512, kGradientBlock = 128;

struct QuantizedPiece {
  int64_t elements = 0;
  int64_t bits = 8;             ///< 8 or 4
  int64_t block = kWeightBlock; ///< a positive multiple of 2

  constexpr int64_t blocks() const { return elements / block + (elements % block != 0); }
  constexpr int64_t scalesAt() const {
    int64_t values = bits == 8 ? elements : elements / 2 + elements % 2;
    return (values + 3) / 4 * 4;
  }
  constexpr int64_t bytes() const { return scalesAt() + 4 * blocks(); }
};

/// The pieces of a plain buffer, `rows` x `columns`; the quantized ones are `columns` x `rows`, so one row keeps their
/// order. Rows are nodes where pieces travel along one axis of the mesh after the other.
struct PieceGrid {
  int64_t rows = 1, columns = 1;

  /// Which piece of the plain buffer quantized piece `k` is.
  constexpr int64_t plainPiece(int64_t k) const { return k % rows * columns + k / rows; }
};

} // namespace zc
