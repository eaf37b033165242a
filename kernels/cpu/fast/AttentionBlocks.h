//===- AttentionBlocks.h - blocks of scores, and products with their tiles ------===//
#pragma once

#include "kernels/cpu/fast/AttentionRows.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/MicroKernel.h"
#include "kernels/shapes/AttentionTensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

namespace zc::cpu {

/// Threads that have pieces in the workspace; a note where that is fewer than there is work for.
template <typename Pieces> int threadsWithPieces(const Pieces &pieces, int given, std::string &note) {
  const int threads = std::min(given, pieces.tiles());
  if (threads < std::min<int64_t>(given, pieces.parts))
    note = "uses fewer threads than it is given: more would need a larger workspace than a plan allows it";
  return threads;
}

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// A product's left factor: of each tile (MicroKernel.h), which are `tileStride` units apart.
struct Left {
  LeftUnits first;
  int64_t tileStride;
};
/// Whose rows are one behind the other, `stride` units apart.
inline Left leftRows(const MicroKernel &by, const float *at, int64_t stride) {
  return {{at, stride, by.step}, by.rows * stride};
}
/// Its right factor.
struct Right {
  const float *panels;
  int64_t stride; ///< units from a panel to the next
};
/// Its sums, in rows, or in panels of a tile's width.
struct Sums {
  float *at;
  int64_t rowStride, tileStride; ///< from row to row, from a tile's columns to the next one's
};
inline Sums sumsInRows(const MicroKernel &by, float *at, int64_t stride) { return {at, stride, by.columns}; }

/// Units [begin, end) of a tile's sum, of which the first is a multiple of a step; less than none if the tile is not
/// needed.
struct Units {
  int64_t begin, end;
};
constexpr Units kSkipped = {1, 0};

/// sums (+)= left right, tile by tile; unitsOf(row, column) of a tile's first element. Rows and columns are padded.
template <typename UnitsOf>
void multiply(const MicroKernel &by, const Left &left, const Right &right, const Sums &sums, int64_t rows,
              int64_t columns, bool adds, UnitsOf unitsOf) {
  for (int64_t j = 0; j < columns; j += by.columns)
    for (int64_t i = 0; i < rows; i += by.rows)
      if (Units units = unitsOf(i, j); units.begin <= units.end)
        by.run({left.first.at + i / by.rows * left.tileStride + units.begin / by.step * left.first.stepStride,
                left.first.rowStride, left.first.stepStride},
               right.panels + j / by.columns * right.stride + units.begin * by.columns, units.end - units.begin,
               sums.at + i * sums.rowStride + j / by.columns * sums.tileStride, sums.rowStride, adds);
}

/// A block of scores: queries [row, row + rows) and keys [key, key + keys) of a head.
struct Block {
  const AttentionShape &s;
  const MicroKernel &by;
  int64_t row, rows, key, keys;

  /// Of its keys row i may see [hidden, visible), by positions.
  int64_t visible(int64_t i) const { return std::clamp<int64_t>(s.endKey(row + i) - key, 0, keys); }
  int64_t hidden(int64_t i) const { return std::clamp<int64_t>(s.firstKey(row + i) - key, 0, visible(i)); }
  int64_t visibleOfTile(int64_t i) const { return visible(std::min(i + by.rows, rows) - 1); }
  /// What rows are filled up to with zeros: whole tiles of the keys that the last row sees.
  int64_t end() const { return roundUp(visible(rows - 1), kTileColumns); }
  /// Rows [first, first + count) of it, and keys [from, from + width).
  Block part(int64_t first, int64_t count, int64_t from, int64_t width) const {
    return {s, by, row + first, std::min(count, rows - first), key + from, std::min(width, keys - from)};
  }

  /// Products with the scores' rows and columns, over `units` of a head's width.
  auto scoreUnits(int64_t units) const {
    return [this, units](int64_t i, int64_t j) {
      return visibleOfTile(i) > j && hidden(i) < j + by.columns ? Units{0, units} : kSkipped;
    };
  }
  /// Sums over keys.
  auto keyUnits() const {
    return [this](int64_t i, int64_t) { return Units{unitOf(hidden(i)), by.units(visibleOfTile(i))}; };
  }
  /// Sums over queries: units with those that see keys of a tile from j on.
  Units queryUnits(int64_t j) const {
    const int64_t own = key + j - (s.keys - s.queries) - row; // the query whose own key that is
    const int64_t first = std::clamp<int64_t>(own - s.endOfSeen() + 1, 0, rows),
                  end = std::clamp<int64_t>(own + kTileColumns - s.firstSeen(), first, rows);
    return {unitOf(first), by.units(end)};
  }

private:
  /// The first of a step, which term `at` is in.
  int64_t unitOf(int64_t at) const { return at / by.terms / by.step * by.step; }
};

/// fn(block) for the blocks of keys that queries [row, row + rows) see, in order.
template <typename Fn> void forKeyBlocks(const AttentionShape &s, const MicroKernel &by, int64_t row, Fn fn) {
  const int64_t rows = std::min(kQueryBlock, s.queries - row), end = s.endKey(row + rows - 1);
  for (int64_t key = s.firstKey(row) / kKeyBlock * kKeyBlock; key < end; key += kKeyBlock)
    fn(Block{s, by, row, rows, key, std::min(kKeyBlock, end - key)});
}

/// What becomes of one head's products with keys: they are capped, masked and hidden.
struct HeadScores {
  const AttentionShape &s;
  const void *mask;
  int64_t b, h;

  /// What is left to scale scores by then.
  float factor() const { return isScaled() ? 1 : static_cast<float>(s.scale); }
  /// Row i of a block. `growth`: null, or where what scores grow by with their products is stored (capScores).
  void finish(const Block &block, int64_t i, float *scores, float *growth) const {
    const int64_t first = block.hidden(i), n = block.visible(i) - first;
    if (s.softcap != 0) {
      if (growth)
        std::fill_n(growth, first, 0.0f);
      capScores(static_cast<float>(s.scale), static_cast<float>(s.softcap), scores + first,
                growth ? growth + first : nullptr, n);
    } else if (isScaled() && !s.hasMask)
      scaleInPlace(scores + first, static_cast<float>(s.scale), n);
    if (s.hasMask) // ahead of the first key its numbers do not matter
      maskScores(s.mask, row(block, i), s.maskStrides[3] == 0, s.softcap == 0 ? static_cast<float>(s.scale) : 1, scores,
                 first + n);
    std::fill_n(scores, first, kMinusInfinity);
  }
  /// Are scores scaled before they are hidden: by what masks and caps them, or since -inf times a scale that is not
  /// positive would be no longer lowest?
  bool isScaled() const { return s.hasMask || s.softcap != 0 || (s.window != 0 && !(s.scale > 0)); }
  /// Does it leave nothing of a block? Of a bool mask it is soon seen: one that a window is far from, or padding.
  bool hides(const Block &block) const {
    if (!s.hasMask || s.mask != DType::boolean)
      return false;
    const int64_t rows = s.maskStrides[2] == 0 ? 1 : block.rows, keys = s.maskStrides[3] == 0 ? 1 : block.keys;
    unsigned char kept = 0;
    for (int64_t i = 0; i < rows && kept == 0; ++i)
      for (int64_t j = 0; j < keys; ++j)
        kept |= static_cast<const unsigned char *>(row(block, i))[j];
    return kept == 0;
  }

private:
  const void *row(const Block &block, int64_t i) const {
    const int64_t at =
        b * s.maskStrides[0] + h * s.maskStrides[1] + (block.row + i) * s.maskStrides[2] + block.key * s.maskStrides[3];
    return static_cast<const char *>(mask) + at * sizeOf(s.mask);
  }
};

/// What is dropped of the probabilities in a step.
inline DropoutNumbers dropoutNumbers(const AttentionShape &s, const StepContext &context) {
  return {randomKey(s.dropoutId, context.step, context.micro, s.rank, s.seed),
          static_cast<uint32_t>(dropoutThreshold(s.dropout)), static_cast<float>(1 / (1 - s.dropout))};
}
/// And of one head's.
struct HeadDropout {
  const AttentionShape &s;
  const DropoutNumbers &numbers;
  int64_t sample, head;

  /// Factors of the first n keys of a block's row; null where nothing is dropped.
  const float *factors(const Block &block, int64_t i, int64_t n, float *buffer) const {
    if (s.dropout == 0)
      return nullptr;
    return dropoutFactors(numbers, s.firstNumber(sample, head) + (block.row + i) * s.keys + block.key, n, buffer);
  }
};

inline const void *offsetBy(const void *base, int64_t elements, DType type) {
  return static_cast<const char *>(base) + elements * sizeOf(type);
}
inline void *offsetBy(void *base, int64_t elements, DType type) {
  return static_cast<char *>(base) + elements * sizeOf(type);
}

/// Rows of a head, from row `i` on.
inline SourceRows rowsFrom(const AttentionShape &s, const HeadTensor &tensor, void *const *operands, int64_t b,
                           int64_t h, int64_t i = 0) {
  return {offsetBy(operands[tensor.operand], tensor.at(b, h, i), s.dtype), tensor.row};
}
inline SourceRows rowsFrom(const AttentionShape &s, SourceRows rows, int64_t i) {
  return {offsetBy(rows.at, i * rows.stride, s.dtype), rows.stride};
}

/// Rows of the head that a thread computes next, to be asked for meanwhile, a few at a time: they are too far apart for
/// the CPU to foresee, and what was written past the caches is in none.
class RowsAhead {
public:
  /// Those that are added last are asked for first.
  void add(const AttentionShape &s, SourceRows rows, int64_t count, int64_t width) {
    if (const int64_t size = sizeOf(s.dtype); count > 0 && width > 0)
      parts[used++] = {static_cast<const char *>(rows.at), rows.stride * size, count, width * size};
  }
  void ask(int64_t rows) {
    for (; used > 0 && rows > 0; --rows) {
      Part &part = parts[used - 1];
      for (int64_t i = 0; i < part.bytes; i += 64)
        __builtin_prefetch(part.at + i, 0, 2);
      __builtin_prefetch(part.at + part.bytes - 1, 0, 2);
      part.at += part.stride;
      used -= --part.rows == 0;
    }
  }
  /// Would they leave the second cache enough for what is computed?
  static bool fit(const AttentionShape &s) {
    return kTensors * std::max(s.queries, s.keys) * std::max(s.depth, s.valueDepth) * sizeOf(s.dtype) <= 256 << 10;
  }

private:
  struct Part {
    const char *at;
    int64_t stride, rows, bytes;
  };
  static constexpr int64_t kTensors = 3;
  std::array<Part, kTensors> parts;
  size_t used = 0;
};

/// Rows of a head that are written, one after the other.
struct ResultRows {
  void *at;
  int64_t stride;
  void *row(int64_t i, DType type) const { return offsetBy(at, i * stride, type); }
  /// Asks for what is written a few rows after row i, of `rows`: they are too far apart for the CPU to foresee.
  void prefetchAfter(int64_t i, int64_t rows, DType type, int64_t width) const {
    constexpr int64_t ahead = 8;
    prefetch(i + ahead, std::min<int64_t>(1, rows - i - ahead), type, width);
  }
  void prefetch(int64_t i, int64_t count, DType type, int64_t width) const {
    constexpr int64_t line = 64;
    for (const int64_t end = i + count; i < end; ++i)
      for (int64_t j = 0; j < width; j += line / sizeOf(type))
        __builtin_prefetch(offsetBy(at, i * stride + j, type), 1);
  }
};
inline ResultRows resultRows(const AttentionShape &s, const HeadTensor &tensor, void *const *operands, int64_t b,
                             int64_t h) {
  return {offsetBy(operands[tensor.operand], tensor.at(b, h, 0), s.dtype), tensor.row};
}

/// `tensors`: those that are packed.
inline bool isServed(const AttentionShape &s, std::initializer_list<HeadTensor> tensors) {
  // Offsets within a panel are 32-bit numbers.
  constexpr int64_t widest = 1 << 16, furthest = 1 << 22;
  return isFast(s.dtype) && s.stat == DType::f32 && s.keyHeads != 0 && std::max(s.depth, s.valueDepth) <= widest &&
         std::all_of(tensors.begin(), tensors.end(), [](const HeadTensor &t) { return t.row <= furthest; });
}

} // namespace zc::cpu
