//===- TilesBf16.h - tiles of bf16 products, and their factors rearranged --------===//
//
// What a CPU multiplies a tile of sums with, in registers, is an engine:
// - AVX512_BF16: vdpbf16ps multiplies 32 pairs of terms at once and adds them in fp32: two a cycle on a Zen 5, one on a
//   Zen 4. A tile of 8 x 48 sums leaves eight of the 32 registers for the factors and takes eleven loads for 24
//   multiplications; 8 x 32 is as fast, but reads more.
// - AMX: tdpbf16ps multiplies 16 rows of 32 terms with as many of 16 columns in 16 cycles. A tile of 48 x 32 sums takes
//   six of the eight registers, and of the second cache five kilobytes for six multiplications where 32 x 32 takes four
//   for four: what that cache gives, not the multiplications, is the limit.
// Units are pairs of successive terms, 32 bits; an odd last term is paired with zero.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Tiles.h"

#include <algorithm>
#include <vector>

namespace zc::cpu::bf16 {

/// Of the largest tiles, of which one has most rows and another one most columns.
constexpr int64_t kMostRows = 48, kMostColumns = 48, kMostSums = 48 * 32;

/// Where the units of a tile's left factor are: (row, unit) at at[row * rowStride + unit / step * stepStride + unit %
/// step * 4], of an engine's step.
struct Rows {
  const char *at;
  int64_t rowStride, stepStride; ///< bytes
};
/// A matrix in memory, `stride` elements from row to row.
struct Matrix {
  const Bf16 *at;
  int64_t stride;
};

/// Rows that a thread will read and has in no near cache, asked for while it multiplies, some lines for each step of
/// units. Asked for at once they would fill the queues that the tiles' own lines need.
class LinesAhead {
public:
  static constexpr int64_t kLine = 64;      ///< bytes
  static constexpr int64_t kStepUnits = 16; ///< after which engines ask for the next ones

  LinesAhead() = default;
  /// `rows` of so many bytes, `stride` bytes apart, all of them in `steps`.
  LinesAhead(const void *first, int64_t rows, int64_t bytes, int64_t stride, int64_t steps)
      : at(static_cast<const char *>(first)), left(bytes > 0 ? rows : 0), stride(stride),
        bytes(reinterpret_cast<uintptr_t>(first) % kLine == 0 && stride % kLine == 0 ? bytes : bytes + kLine - 1),
        each(quotientUp(left * quotientUp(this->bytes, kLine), std::max<int64_t>(steps, 1))) {}

  /// Steps of so many units.
  static int64_t steps(int64_t units) { return quotientUp(units, kStepUnits); }
  void step() {
    for (int64_t i = 0; i < each && left > 0; ++i) {
      __builtin_prefetch(at + done, 0, 2); // the first cache has no room for more than the factors
      if ((done += kLine) >= bytes) {
        done = 0;
        at += stride;
        --left;
      }
    }
  }

private:
  const char *at = nullptr;
  int64_t left = 0, stride = 0, bytes = 0, each = 0, done = 0;
};

/// A row that will be written.
inline void prefetchToWrite(const char *at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += LinesAhead::kLine)
    __builtin_prefetch(at + i, 1);
  __builtin_prefetch(at + bytes - 1, 1);
}

/// Sums of a tile that become rows of the result, bf16(sums + bias).
struct Rounding {
  const float *sums = nullptr;
  int64_t sumsStride = 0;
  const Bf16 *bias = nullptr; ///< may be null
  int64_t rows = 0, columns = 0;
  Bf16 *out = nullptr;
  int64_t stride = 0;
  bool streams = false; ///< whole lines past the caches
  void some(int64_t count);
  void rest() { some(rows); }
};

/// A tile of a product: sums[height][width], rows `stride` apart, = or, if `adds`, += left right. By reference: copies
/// of it on the stack are loads wider than the stores before them, which wait for all that is under way, tiles among
/// it.
struct TileProduct {
  Rows left;
  const uint32_t *panel; ///< units of `width` columns, 48 or 32
  int64_t height;        ///< a multiple of the engine's rowStep
  int64_t width, units;
  float *sums;
  int64_t stride;
  bool adds;
  LinesAhead *leftAhead = nullptr, *rightAhead = nullptr; ///< of the factors
  /// Of the tile before, done meanwhile or in part; or, of engines that round their own, of this one instead of `sums`
  /// (which are read if it adds).
  Rounding *rounding = nullptr;
};

struct Engine {
  const char *name;
  int64_t rows;          ///< of a tile
  int64_t rowStep;       ///< what a tile has as many rows of as are needed
  int64_t columns;       ///< of a tile, at most
  int64_t unitStep;      ///< factors end in zeros up to a multiple
  int64_t panels;        ///< of the right factor that a thread rearranges at a time
  bool copiesLeft;       ///< rows of a left factor, even if they could be read where they are
  bool streams;          ///< large results past the caches
  bool packsFirst;       ///< several threads all of a block's right factor, and then they multiply
  bool asksForRows;      ///< of the left factor that are used in place, a tile ahead
  bool asksForPanels;    ///< that have been rearranged, one ahead: the CPU does not foresee them
  bool roundsOwn;        ///< a tile's own sums, while they are in registers; else those of the tile before
  int64_t longTerms;     ///< terms of a product from which on tiles are no slower than a library, in steps of models
  const Engine *ofHeads; ///< the same, of tiles of at most kTileRows x kTileColumns
  /// Around a thread's use of `multiply`.
  void (*begin)();
  void (*end)();
  void (*multiply)(const TileProduct &product);
  /// Rearranges rows of a left factor, whose rows in memory are terms; where they are then in a block.
  void (*packLeft)(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride);
  int64_t packedRowStride, packedStepStride;
  /// Copies `count` rows of a left factor, whose rows are the source's; zeros beyond, up to a whole tile.
  void (*copyLeft)(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks, int64_t stride);

  int64_t units(int64_t terms) const { return roundUp((terms + 1) / 2, unitStep); }
  /// Where copied rows are in a block.
  Rows copied(const uint32_t *block, int64_t units) const {
    const auto *at = reinterpret_cast<const char *>(block);
    return copiesLeft ? Rows{at, packedRowStride, packedStepStride} : Rows{at, 4 * units, 4 * unitStep};
  }
};

/// Those that the CPU has, the best one first.
const std::vector<const Engine *> &engines();
/// That one; null: none.
inline const Engine *engine() { return engines().empty() ? nullptr : engines().front(); }
/// Those of the file that each is in; null where the CPU has it not.
const Engine *engineOfAvx512();
const Engine *engineOfAmx();

/// While a thread multiplies; by none if null.
class Multiplying {
public:
  explicit Multiplying(const Engine *engine) : engine(engine) {
    if (engine)
      engine->begin();
  }
  ~Multiplying() {
    if (engine)
      engine->end();
  }
  Multiplying(const Multiplying &) = delete;
  Multiplying &operator=(const Multiplying &) = delete;

private:
  const Engine *engine;
};

/// Columns of a tile: a right factor is cut into panels of 48 and, where that leaves 16 or 32, one or two of 32; or, of
/// an engine with no more columns, of 32 each.
struct Panel {
  int64_t begin, width; ///< of units; their columns may end before
};
class Panels {
public:
  static constexpr int64_t kNarrow = 32;
  Panels(int64_t columns, const Engine &engine) : columns(columns) {
    const int64_t vectors = (columns + 15) / 16;
    narrow = engine.columns == kNarrow ? (vectors + 1) / 2 : vectors == 1 ? 1 : vectors * 2 % 3;
    wide = (vectors - std::min(vectors, 2 * narrow)) / 3;
  }
  int64_t count() const { return wide + narrow; }
  Panel operator[](int64_t index) const {
    return index < wide ? Panel{index * kMostColumns, kMostColumns}
                        : Panel{wide * kMostColumns + (index - wide) * kNarrow, kNarrow};
  }
  /// Columns that a panel has.
  int64_t present(int64_t index) const { return std::min((*this)[index].width, columns - (*this)[index].begin); }

private:
  int64_t columns, narrow, wide;
};

/// Part of a right factor, from a block's first column on.
struct RightFactor {
  Matrix source;     ///< from its first term and column
  bool isTransposed; ///< rows of it are columns, else terms
  int64_t terms;
};
/// Panels [first, last), each of `units` of its width; zeros beyond the factor. `block`: where the first of all is.
void packPanels(const RightFactor &factor, const Panels &panels, int64_t first, int64_t last, int64_t units,
                uint32_t *block);
/// What packPanels will read of these, in so many steps.
LinesAhead panelsAhead(const RightFactor &factor, const Panels &panels, int64_t first, int64_t last, int64_t steps);
/// Engine::copyLeft, into blocks of [8][units], or of [units / 16][rows][16], `stride` units apart.
void copyLeftOf8(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks, int64_t stride);
void copyLeftOf32(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks, int64_t stride);
void copyLeftOf48(Matrix source, int64_t terms, int64_t units, int64_t count, uint32_t *blocks, int64_t stride);
/// Engine::packLeft, into blocks of [units][8], or of [units / 16][rows][16].
void packLeftOf8(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride);
void packLeftOf32(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride);
void packLeftOf48(Matrix source, int64_t terms, int64_t count, uint32_t *blocks, int64_t stride);

/// out = bf16(sums + bias) of `rows` rows of `columns` elements; `bias` may be null. `streams`: whole lines go past the
/// caches.
void roundTile(const float *sums, int64_t sumsStride, const Bf16 *bias, int64_t rows, int64_t columns, Bf16 *out,
               int64_t stride, bool streams = false);

} // namespace zc::cpu::bf16
