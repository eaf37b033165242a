//===- QuantizedBlocks.h - ZeRO++'s kernels where blocks are whole units ------------------------===//
//
// A thread has two units of eight elements, a group of threads a block of up to 4096: what it loads (16 bytes of the
// plain tensor at once, 8 or 4 of the quantized) waits in registers until the group knows the block's scale, so that
// memory is read once. Neighbouring threads have neighbouring units. Nothing is divided per element: a block of the
// grid belongs to one piece, a group's number is a shift of its thread's.
//
// Bytes per element that move, of bf16: quantize and dequantize 3 (int8) or 2.5 (int4), sums of four sources 6 or 4,
// sums that are quantized again 5 or 2.5. Limit: memory; goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"
#include "kernels/cuda/Divider.h"
#include "kernels/cuda/Groups.h"
#include "kernels/cuda/Launch.h"
#include "kernels/formula/QuantizedUnit.h"

namespace zc::cuda {

using namespace formula;

constexpr int kUnitsOfThread = 2, kUnitThreads = 256;
/// Plain values of a thread's units.
using UnitValues = float[kUnitsOfThread][kUnit];

/// Which threads have which units of pieces of one form.
class UnitGrid {
public:
  /// What a thread has: units first, first + stride, ... of the piece, below `end`; one block's, at least partly.
  struct Place {
    int64_t piece, plain;      ///< among quantized and plain pieces
    int64_t block, first, end; ///< of the piece
    int stride;
    bool isFirst; ///< of the block's threads

    /// f(j, unit) for each of the thread's units.
    template <typename F> ZC_HD void forEach(F f) const {
      for (int j = 0; j < kUnitsOfThread; ++j)
        if (int64_t unit = first + static_cast<int64_t>(j) * stride; unit < end)
          f(j, unit);
    }
  };

  /// Of the pieces of `s`, if they consist of units and not too many of them.
  static bool takes(const cpu::QuantizeShape &s) {
    constexpr int64_t most = int64_t{kUnitsOfThread} * kUnit * kUnitThreads,
                      limit = std::numeric_limits<int32_t>::max();
    const QuantizedPiece &q = s.piece;
    return q.elements > 0 && q.elements % kUnit == 0 && q.block % kUnit == 0 && q.block <= most &&
           q.blocks() <= limit / s.pieces;
  }
  explicit UnitGrid(const cpu::QuantizeShape &s)
      : units(s.piece.elements / kUnit), blocks(s.piece.blocks()), pieceBytes(s.piece.bytes()),
        scalesAt(s.piece.scalesAt()), columns(s.grid.columns), rows(static_cast<uint32_t>(s.grid.rows)),
        unitsOfBlock(static_cast<int>(s.piece.block / kUnit)) {
    while (group() * kUnitsOfThread < unitsOfBlock)
      ++shift;
    const int64_t atOnce = kUnitThreads >> shift;
    perPiece = Divider(static_cast<uint32_t>((blocks + atOnce - 1) / atOnce));
  }
  /// Blocks of threads for so many pieces.
  int64_t count(int64_t pieces) const { return pieces * perPiece.divisor(); }
  ZC_HD int group() const { return 1 << shift; }
  ZC_HD Place place(int64_t index, int thread) const {
    const auto at = static_cast<uint32_t>(index), k = perPiece.quotient(at), row = rows.quotient(k);
    const int member = thread & (group() - 1);
    Place p;
    p.piece = k;
    p.plain = (k - row * rows.divisor()) * columns + row;
    p.block = static_cast<int64_t>(at - k * perPiece.divisor()) * (kUnitThreads >> shift) + (thread >> shift);
    const int64_t begin = p.block * unitsOfBlock, end = begin + unitsOfBlock;
    p.first = begin + member;
    p.end = end < units ? end : units;
    p.stride = group();
    p.isFirst = member == 0 && begin < units;
    return p;
  }
  /// The first of a plain piece's elements.
  ZC_HD int64_t plainAt(const Place &p) const { return p.plain * units * kUnit; }

  int64_t units, blocks, pieceBytes, scalesAt;

private:
  int64_t columns;
  Divider perPiece, rows;
  int unitsOfBlock, shift = 0;
};

//===-- units in memory --------------------------------------------------------------===//

template <typename T> ZC_HD void loadUnit(const T *from, float (&x)[kUnit]) {
  constexpr int V = 16 / sizeof(T);
  Pack<T, V> packs[kUnit / V];
  for (int p = 0; p < kUnit / V; ++p)
    packs[p] = *reinterpret_cast<const Pack<T, V> *>(from + p * V);
  for (int i = 0; i < kUnit; ++i)
    x[i] = load(packs[i / V].element[i % V]);
}
template <typename T> ZC_HD void storeUnit(T *to, const float (&x)[kUnit]) {
  constexpr int V = 16 / sizeof(T);
  Pack<T, V> packs[kUnit / V];
  for (int i = 0; i < kUnit; ++i)
    packs[i / V].element[i % V] = store<T>(x[i]);
  for (int p = 0; p < kUnit / V; ++p)
    *reinterpret_cast<Pack<T, V> *>(to + p * V) = packs[p];
}

/// How values lie in memory: so many bits each; units of int8 at multiples of 8 bytes, or (`wide` false) of 4.
template <int b, bool wide> struct UnitForm {
  static constexpr int bits = b;
  using Unit = QuantizedUnit<bits>;
  static constexpr int kWord = wide ? Unit::kWords : 1;
  using Word = Pack<uint32_t, kWord>;

  static ZC_HD void read(const uint8_t *from, typename Unit::Words &words) {
    for (int w = 0; w < Unit::kWords; w += kWord) {
      const Word word = *reinterpret_cast<const Word *>(from + 4 * w);
      for (int i = 0; i < kWord; ++i)
        words[w + i] = word.element[i];
    }
  }
  static ZC_HD void write(uint8_t *to, const typename Unit::Words &words) {
    for (int w = 0; w < Unit::kWords; w += kWord) {
      Word word;
      for (int i = 0; i < kWord; ++i)
        word.element[i] = words[w + i];
      *reinterpret_cast<Word *>(to + 4 * w) = word;
    }
  }
};

//===-- where plain values come from -----------------------------------------------===//

template <typename T> struct PlainUnits {
  const T *x;
  ZC_HD void read(const UnitGrid &grid, const UnitGrid::Place &p, UnitValues &value) const {
    const T *from = x + grid.plainAt(p);
    p.forEach([&](int j, int64_t unit) { loadUnit(from + unit * kUnit, value[j]); });
  }
};

/// Sums of quantized pieces, `stride` bytes from each to the next.
template <typename Form> struct SummedUnits {
  static constexpr int kAtOnce = 4; ///< sources that are on their way together
  using Unit = typename Form::Unit;
  const uint8_t *q;
  int64_t stride, sources;
  ZC_HD void read(const UnitGrid &grid, const UnitGrid::Place &p, UnitValues &sum) const {
    const uint8_t *from = q + p.piece * grid.pieceBytes;
    for (int64_t first = 0; first < sources; first += kAtOnce, from += kAtOnce * stride) {
      typename Unit::Words words[kAtOnce][kUnitsOfThread];
      float scales[kAtOnce] = {};
      for (int s = 0; s < kAtOnce; ++s)
        if (first + s < sources && p.first < p.end) {
          const uint8_t *source = from + s * stride;
          p.forEach([&](int j, int64_t unit) { Form::read(source + unit * Unit::kBytes, words[s][j]); });
          scales[s] = *reinterpret_cast<const float *>(source + grid.scalesAt + 4 * p.block);
        }
      for (int s = 0; s < kAtOnce; ++s)
        if (first + s < sources)
          p.forEach([&](int j, int64_t) { add(words[s][j], scales[s], first + s == 0, sum[j]); });
    }
  }

private:
  static ZC_HD void add(const typename Unit::Words &words, float scale, bool isFirst, float (&sum)[kUnit]) {
    float value[kUnit];
    Unit::decode(words, value);
    for (int i = 0; i < kUnit; ++i)
      sum[i] = isFirst ? value[i] * scale : sum[i] + value[i] * scale;
  }
};

//===-- bodies -----------------------------------------------------------------------===//

/// As QuantizeBody.
template <typename T, typename Form, typename Source> struct QuantizeUnitsBody {
  using Unit = typename Form::Unit;
  struct State {
    UnitValues x;
  };
  UnitGrid grid;
  Source source;
  uint8_t *out;
  T *residual;
  float beta;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    inGroups<MaxOf, State>(
        block, grid.group(), [&](int thread, State &state) { return largest(grid.place(index, thread), state.x); },
        [&](int thread, State &state, uint32_t bits) {
          const UnitGrid::Place p = grid.place(index, thread);
          const BlockScale scale = scaleOf(zc::detail::floatOf(bits), Form::bits);
          uint8_t *piece = out + p.piece * grid.pieceBytes;
          p.forEach([&](int j, int64_t unit) { quantize(p, scale, state.x[j], piece, unit); });
          if (p.isFirst)
            *reinterpret_cast<float *>(piece + grid.scalesAt + 4 * p.block) = scale.scale;
        });
  }

private:
  /// Loads what the thread has. The largest of magnitudes as an integer: a NaN's is above infinity's.
  ZC_HD uint32_t largest(const UnitGrid::Place &p, UnitValues &x) const {
    source.read(grid, p, x);
    if (residual)
      p.forEach([&](int j, int64_t unit) {
        float lost[kUnit];
        loadUnit(residual + grid.plainAt(p) + unit * kUnit, lost);
        for (int i = 0; i < kUnit; ++i)
          x[j][i] += lost[i];
      });
    uint32_t result = 0;
    p.forEach([&](int j, int64_t) {
      for (int i = 0; i < kUnit; ++i)
        result = MaxOf::apply(result, zc::detail::bitsOf(x[j][i]) & 0x7fffffffu);
    });
    return result;
  }
  ZC_HD void quantize(const UnitGrid::Place &p, const BlockScale &scale, const float (&x)[kUnit], uint8_t *piece,
                      int64_t unit) const {
    typename Unit::Words words;
    float value[kUnit];
    Unit::encode(x, scale, value, words);
    Form::write(piece + unit * Unit::kBytes, words);
    if (residual) {
      T *at = residual + grid.plainAt(p) + unit * kUnit;
      float lost[kUnit];
      loadUnit(at, lost);
      for (int i = 0; i < kUnit; ++i)
        lost[i] = beta * lost[i] + (1 - beta) * (x[i] - value[i] * scale.scale);
      storeUnit(at, lost);
    }
  }
};

/// As DequantizeBody and DequantizeSumBody: sums of one source, or of more, which are scaled.
template <typename T, typename Form> struct DequantizeUnitsBody {
  UnitGrid grid;
  SummedUnits<Form> source;
  T *y;
  float scale;
  bool accumulate;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    const bool adds = accumulate && frame.context->micro > 0;
    block.forEach(kUnitThreads, [&](int64_t thread) {
      const UnitGrid::Place p = grid.place(index, static_cast<int>(thread));
      UnitValues sum;
      source.read(grid, p, sum);
      T *to = y + grid.plainAt(p);
      p.forEach([&](int j, int64_t unit) { finish(to + unit * kUnit, sum[j], adds); });
    });
  }

private:
  ZC_HD void finish(T *to, float (&x)[kUnit], bool adds) const {
    for (int i = 0; i < kUnit; ++i)
      x[i] *= scale;
    if (adds) { // to what is rounded, as a sum that lands elsewhere first is
      float before[kUnit];
      loadUnit(to, before);
      for (int i = 0; i < kUnit; ++i)
        x[i] = before[i] + static_cast<float>(load(store<T>(x[i])));
    }
    storeUnit(to, x);
  }
};

//===-- which form -------------------------------------------------------------------===//

/// fn(form) for the form in which all of `quantized` lie, if units of them and of `plain` can be taken: else false.
template <typename Fn>
bool withUnitForm(const cpu::QuantizeShape &s, std::initializer_list<const void *> plain,
                  std::initializer_list<const void *> quantized, Fn fn) {
  auto areAt = [](std::initializer_list<const void *> pointers, uintptr_t bytes) {
    return std::all_of(pointers.begin(), pointers.end(),
                       [&](const void *p) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; });
  };
  if (!UnitGrid::takes(s) || !areAt(plain, 16) || !areAt(quantized, 4))
    return false;
  const bool isWide = areAt(quantized, 8) && s.piece.bytes() % 8 == 0;
  if (s.piece.bits == 4)
    fn(UnitForm<4, true>());
  else if (isWide)
    fn(UnitForm<8, true>());
  else
    fn(UnitForm<8, false>());
  return true;
}

} // namespace zc::cuda
