//===- QuantizedBlocks.h - ZeRO++'s kernels where blocks are whole units ------------------------===//
//
// A thread has four units of eight elements, a group of threads a block of up to 4096: what it loads (16 bytes of the
// plain tensor at once, 8 or 4 of the quantized) waits in registers until the group knows the block's scale, so that
// memory is read once. Neighbouring threads have neighbouring units. Nothing is divided per element: a block of the
// grid belongs to one piece, a group's number is a shift of its thread's.
//
// Bytes per element that move, of bf16: quantize and dequantize 3 (int8) or 2.5 (int4), sums of four sources 6 or 4,
// sums that are quantized again 5 or 2.5. Limit: memory; goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Divider.h"
#include "kernels/cuda/Launch.h"
#include "kernels/formula/QuantizedUnit.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cuda {

using namespace formula;

constexpr int kUnitsOfThread = 4, kUnitThreads = 128;
/// Plain values of a thread's units.
using UnitValues = float[kUnitsOfThread][kUnit];

/// Which threads have which units of pieces of one form.
class UnitGrid {
public:
  /// What a thread has: units first, first + stride, ... of the piece, below `end`, in one block.
  struct Place {
    int64_t piece, plain; ///< among quantized and plain pieces
    int32_t block, first, end, stride;
    bool isFirst; ///< of the block's threads

    /// f(j, unit) for each of the thread's units.
    template <typename F> ZC_HD void forEach(F f) const {
      for (int j = 0; j < kUnitsOfThread; ++j)
        if (const int32_t unit = first + j * stride; unit < end)
          f(j, unit);
    }
    /// The same for loads, which are all made, on their way together: of what the thread does not have, the last unit
    /// is read, which changes no largest value of its block.
    template <typename F> ZC_HD void forLoads(F f) const {
      for (int j = 0; j < kUnitsOfThread; ++j) {
        const int32_t unit = first + j * stride;
        f(j, unit < end ? unit : end - 1);
      }
    }
  };

  /// Do the pieces of `s` consist of units, and not of too many?
  static bool takes(const shapes::QuantizeShape &s) {
    constexpr int64_t mostOfBlock = int64_t{kUnitsOfThread} * kUnit * kUnitThreads, mostUnits = int64_t{1} << 30;
    const QuantizedPiece &q = s.piece;
    return q.elements > 0 && q.elements % kUnit == 0 && q.block % kUnit == 0 && q.block <= mostOfBlock &&
           q.elements / kUnit <= mostUnits && q.blocks() <= mostUnits / s.pieces;
  }
  explicit UnitGrid(const shapes::QuantizeShape &s)
      : pieceBytes(s.piece.bytes()), scalesAt(s.piece.scalesAt()), elements(s.piece.elements), columns(s.grid.columns),
        rows(static_cast<uint32_t>(s.grid.rows)), units(static_cast<int32_t>(s.piece.elements / kUnit)),
        blocks(static_cast<int32_t>(s.piece.blocks())), unitsOfBlock(static_cast<int32_t>(s.piece.block / kUnit)) {
    while (group() * kUnitsOfThread < unitsOfBlock)
      ++shift;
    const int64_t atOnce = kUnitThreads >> shift;
    perPiece = Divider(static_cast<uint32_t>((blocks + atOnce - 1) / atOnce));
  }
  /// Blocks of threads for so many pieces.
  int64_t count(int64_t pieces) const { return pieces * perPiece.divisor(); }
  /// Threads that have a block.
  ZC_HD int group() const { return 1 << shift; }
  ZC_HD Place place(int64_t index, int thread) const {
    const auto at = static_cast<uint32_t>(index), k = perPiece.quotient(at), row = rows.quotient(k);
    const int member = thread & (group() - 1);
    Place p;
    p.piece = k;
    p.plain = (k - row * rows.divisor()) * columns + row;
    const int32_t block =
        static_cast<int32_t>(at - k * perPiece.divisor()) * (kUnitThreads >> shift) + (thread >> shift);
    const int32_t begin = block * unitsOfBlock, end = begin + unitsOfBlock;
    p.block = block < blocks ? block : blocks - 1;
    p.first = begin + member;
    p.end = end < units ? end : units;
    p.stride = group();
    p.isFirst = member == 0 && begin < units;
    return p;
  }

  int64_t pieceBytes, scalesAt, elements; ///< of a piece

private:
  int64_t columns;
  Divider perPiece, rows;
  int32_t units, blocks, unitsOfBlock, shift = 0;
};

//===-- units in memory --------------------------------------------------------------===//

/// Elements as they are stored; in words, of which a half is one instruction.
template <typename T> struct StoredUnit {
  static constexpr int kBits = 8 * sizeof(T), kWords = kUnit * kBits / 32, kOfWord = 32 / kBits;
  using Quarter = Pack<uint32_t, 4>; // 16 bytes
  uint32_t words[kWords];

  ZC_HD void loadFrom(const T *from) {
    for (int w = 0; w < kWords; w += 4) {
      const auto loaded = reinterpret_cast<const Quarter *>(from)[w / 4];
      for (int i = 0; i < 4; ++i)
        words[w + i] = loaded.element[i];
    }
  }
  ZC_HD void storeTo(T *to) const {
    for (int w = 0; w < kWords; w += 4)
      reinterpret_cast<Quarter *>(to)[w / 4] = {words[w], words[w + 1], words[w + 2], words[w + 3]};
  }
  ZC_HD float at(int i) const {
    const uint32_t word = words[i / kOfWord];
    if constexpr (kBits == 32)
      return zc::detail::floatOf(word);
    else
      return load(T{static_cast<uint16_t>(word >> kBits * (i % kOfWord))});
  }
  /// Elements in order: the first of a word clears the others.
  ZC_HD void set(int i, float x) {
    uint32_t &word = words[i / kOfWord];
    if constexpr (kBits == 32)
      word = zc::detail::bitsOf(x);
    else if (i % kOfWord == 0)
      word = store<T>(x).bits;
    else
      word |= static_cast<uint32_t>(store<T>(x).bits) << kBits * (i % kOfWord);
  }
};
/// Those of a thread.
template <typename T> using StoredUnits = StoredUnit<T>[kUnitsOfThread];

/// `from`: the first of a plain piece's elements.
template <typename T> ZC_HD void loadUnits(const T *from, const UnitGrid::Place &p, StoredUnits<T> &stored) {
  p.forLoads([&](int j, int32_t unit) { stored[j].loadFrom(from + int64_t{unit} * kUnit); });
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
    StoredUnits<T> stored;
    loadUnits(x + p.plain * grid.elements, p, stored);
    for (int j = 0; j < kUnitsOfThread; ++j)
      for (int i = 0; i < kUnit; ++i)
        value[j][i] = stored[j].at(i);
  }
};

/// A quantized piece. `q`: the first one's bytes.
template <typename Form> struct QuantizedUnits {
  using Unit = typename Form::Unit;
  const uint8_t *q;
  ZC_HD void read(const UnitGrid &grid, const UnitGrid::Place &p, UnitValues &value) const {
    Loaded own;
    own.load(grid, p, q + p.piece * grid.pieceBytes);
    own.get(value);
  }

  /// What a thread has loaded of one piece.
  struct Loaded {
    typename Unit::Words words[kUnitsOfThread];
    float scale;
    ZC_HD void load(const UnitGrid &grid, const UnitGrid::Place &p, const uint8_t *piece) {
      p.forLoads([&](int j, int32_t unit) { Form::read(piece + int64_t{unit} * Unit::kBytes, words[j]); });
      scale = *reinterpret_cast<const float *>(piece + grid.scalesAt + int64_t{p.block} * 4);
    }
    ZC_HD void get(UnitValues &value) const {
      for (int j = 0; j < kUnitsOfThread; ++j) {
        Unit::decode(words[j], value[j]);
        for (int i = 0; i < kUnit; ++i)
          value[j][i] *= scale;
      }
    }
  };
};

/// Sums of quantized pieces, `stride` bytes from each to the next.
template <typename Form> struct SummedUnits {
  static constexpr int kAtOnce = 2; ///< sources that are on their way together
  using Loaded = typename QuantizedUnits<Form>::Loaded;
  const uint8_t *q;
  int64_t stride, sources;
  ZC_HD void read(const UnitGrid &grid, const UnitGrid::Place &p, UnitValues &sum) const {
    for (int j = 0; j < kUnitsOfThread; ++j)
      for (int i = 0; i < kUnit; ++i)
        sum[j][i] = -0.0f; // which leaves the first as it is
    const uint8_t *from = q + p.piece * grid.pieceBytes;
    for (int64_t first = 0; first < sources; first += kAtOnce, from += kAtOnce * stride) {
      Loaded loaded[kAtOnce];
      for (int s = 0; s < kAtOnce; ++s)
        if (first + s < sources)
          loaded[s].load(grid, p, from + s * stride);
      for (int s = 0; s < kAtOnce; ++s)
        if (first + s < sources)
          add(loaded[s], sum);
    }
  }

private:
  static ZC_HD void add(const Loaded &loaded, UnitValues &sum) {
    UnitValues value;
    loaded.get(value);
    for (int j = 0; j < kUnitsOfThread; ++j)
      for (int i = 0; i < kUnit; ++i)
        sum[j][i] += value[j][i];
  }
};

//===-- bodies -----------------------------------------------------------------------===//

/// As QuantizeBody; `feeds`: with a residual.
template <typename T, typename Form, typename Source, bool feeds> struct QuantizeUnitsBody {
  using Unit = typename Form::Unit;
  struct State {
    UnitValues x;
    StoredUnits<T> lost;
  };
  UnitGrid grid;
  Source source;
  uint8_t *out;
  T *residual;
  float beta;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    inGroups<MaxOf, State>(
        block, grid.group(), [&](int thread, State &state) { return largest(grid.place(index, thread), state); },
        [&](int thread, State &state, uint32_t bits) {
          const UnitGrid::Place p = grid.place(index, thread);
          const BlockScale scale = scaleOf(zc::detail::floatOf(bits), Form::bits);
          uint8_t *piece = out + p.piece * grid.pieceBytes;
          T *fed = feeds ? residual + p.plain * grid.elements : nullptr;
          p.forEach([&](int j, int32_t unit) {
            float value[kUnit];
            typename Unit::Words words;
            Unit::encode(state.x[j], scale, value, words);
            Form::write(piece + int64_t{unit} * Unit::kBytes, words);
            if (feeds)
              feed(state.x[j], value, scale.scale, state.lost[j], fed + int64_t{unit} * kUnit);
          });
          if (p.isFirst)
            *reinterpret_cast<float *>(piece + grid.scalesAt + int64_t{p.block} * 4) = scale.scale;
        });
  }

private:
  /// Loads what the thread has. The largest of magnitudes as an integer: a NaN's is above infinity's.
  ZC_HD uint32_t largest(const UnitGrid::Place &p, State &state) const {
    if (feeds)
      loadUnits(residual + p.plain * grid.elements, p, state.lost);
    source.read(grid, p, state.x);
    uint32_t result = 0;
    for (int j = 0; j < kUnitsOfThread; ++j)
      for (int i = 0; i < kUnit; ++i) {
        if (feeds)
          state.x[j][i] += state.lost[j].at(i);
        result = MaxOf::apply(result, zc::detail::bitsOf(state.x[j][i]) & 0x7fffffffu);
      }
    return result;
  }
  ZC_HD void feed(const float (&x)[kUnit], const float (&value)[kUnit], float scale, const StoredUnit<T> &lost,
                  T *to) const {
    StoredUnit<T> next;
    for (int i = 0; i < kUnit; ++i)
      next.set(i, beta * lost.at(i) + (1 - beta) * (x[i] - value[i] * scale));
    next.storeTo(to);
  }
};

/// As DequantizeSumBody, or of one source as it is, as DequantizeBody.
template <typename T, typename Form, bool sums> struct DequantizeUnitsBody {
  using Source = std::conditional_t<sums, SummedUnits<Form>, QuantizedUnits<Form>>;
  UnitGrid grid;
  Source source;
  T *y;
  float scale;
  bool accumulate;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    const bool adds = sums && accumulate && frame.context->micro > 0;
    block.forEach(kUnitThreads, [&](int64_t thread) {
      const UnitGrid::Place p = grid.place(index, static_cast<int>(thread));
      UnitValues sum;
      source.read(grid, p, sum);
      StoredUnits<T> results;
      for (int j = 0; j < kUnitsOfThread; ++j)
        for (int i = 0; i < kUnit; ++i)
          results[j].set(i, sums ? sum[j][i] * scale : sum[j][i]);
      T *to = y + p.plain * grid.elements;
      if (adds)
        addTo(to, p, results);
      p.forEach([&](int j, int32_t unit) { results[j].storeTo(to + int64_t{unit} * kUnit); });
    });
  }

private:
  /// What is added has been rounded, as a sum that lands elsewhere first is.
  static ZC_HD void addTo(const T *to, const UnitGrid::Place &p, StoredUnits<T> &results) {
    StoredUnits<T> before;
    loadUnits(to, p, before);
    for (int j = 0; j < kUnitsOfThread; ++j) {
      StoredUnit<T> sum;
      for (int i = 0; i < kUnit; ++i)
        sum.set(i, before[j].at(i) + results[j].at(i));
      results[j] = sum;
    }
  }
};

//===-- which form -------------------------------------------------------------------===//

/// fn(form) for the form in which all of `quantized` lie, if units of them and of `plain` can be taken: else false.
template <typename Fn>
bool withUnitForm(const shapes::QuantizeShape &s, std::initializer_list<const void *> plain,
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
