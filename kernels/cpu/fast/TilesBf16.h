//===- TilesBf16.h - tiles of bf16 products by AVX512_BF16, and their factors rearranged --------===//
//
// vdpbf16ps multiplies 32 pairs of terms at once and adds them in fp32: two a cycle on a Zen 5, one on a Zen 4. A tile
// of 8 x 48 sums leaves eight of the 32 registers for the factors and takes eleven loads for 24 multiplications; 8 x 32
// is as fast, but reads more. Units
// are pairs of successive terms, 32 bits; an odd last term is paired with zero.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Tiles.h"

namespace zc::cpu::bf16 {

constexpr int64_t kRows = Bf16Blocks::kTileRows;

/// Columns of a tile: a right factor is cut into panels of 48 and, where that leaves 16 or 32, one or two of 32.
struct Panel {
  int64_t begin, width; ///< of units; their columns may end before
};
class Panels {
public:
  explicit Panels(int64_t columns)
      : vectors((columns + 15) / 16), narrow(vectors == 1 ? 1 : vectors * 2 % 3),
        wide((vectors - std::min(vectors, 2 * narrow)) / 3) {}
  int64_t count() const { return wide + narrow; }
  Panel operator[](int64_t index) const {
    constexpr int64_t most = Bf16Blocks::kTileColumns, least = Bf16Blocks::kNarrowColumns;
    return index < wide ? Panel{index * most, most} : Panel{wide * most + (index - wide) * least, least};
  }

private:
  int64_t vectors, narrow, wide;
};

/// Has the CPU what the functions below are compiled for?
bool hasTiles();

/// Where the units of a tile's left factor are: (row, unit) at at[row * rowStride + unit * unitStride].
struct Rows {
  const char *at;
  int64_t rowStride, unitStride; ///< bytes
};
/// sums[8][width], rows `stride` apart, = or, if `adds`, += left right. `panel`: units of `width` columns, 48 or 32.
void multiplyTile(Rows left, const uint32_t *panel, int64_t width, int64_t units, float *sums, int64_t stride,
                  bool adds);

/// A matrix in memory, `stride` elements from row to row.
struct Matrix {
  const Bf16 *at;
  int64_t stride;
};
/// Terms [0, terms) of `columns` columns of a right factor, as a panel of `width`; zeros beyond. `source`: its first
/// term and column; rows of it are terms, or, if `isTransposed`, columns.
void packPanel(Matrix source, bool isTransposed, int64_t terms, int64_t columns, int64_t width, uint32_t *panel);
/// Asks for part `part` of `parts` of what packPanel will read.
void prefetchPanel(Matrix source, bool isTransposed, int64_t terms, int64_t columns, int64_t part, int64_t parts);
/// Terms [0, terms) of `rows` rows of a left factor in blocks of eight rows, `stride` units apart, each [units][8];
/// zeros beyond. Rows of the source are terms.
void packLeft(Matrix source, int64_t terms, int64_t rows, uint32_t *blocks, int64_t stride);
/// The same where rows of the source are the factor's: a block is [8][units] then.
void copyLeft(Matrix source, int64_t terms, int64_t rows, uint32_t *blocks, int64_t stride);

/// out = bf16(sums + bias) of `rows` rows of `columns` elements; `bias` may be null.
void roundTile(const float *sums, int64_t sumsStride, const Bf16 *bias, int64_t rows, int64_t columns, Bf16 *out,
               int64_t stride);

} // namespace zc::cpu::bf16
