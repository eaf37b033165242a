//===- Quantize.h - ZeRO++'s kernels on block-quantized pieces -------------------------===//
//
// Arithmetic of formula/Quantize.h, bit-equal with the CPU's. Bodies for pieces of any size, block and alignment stand
// here, an element at a time; QuantizedBlocks.h has those for the pieces that plans have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/QuantizedBlocks.h"

namespace zc::cuda {

/// Plain values of element i of piece k, `at` of the plain tensor's: of a tensor, or sums of quantized sources.
template <typename T> struct PlainSource {
  const T *x;
  int64_t elements;
  ZC_HD float operator()(int64_t, int64_t at, int64_t i) const {
    return static_cast<float>(load(x[at * elements + i]));
  }
};
struct SummedSource {
  const uint8_t *q;
  QuantizedPiece piece;
  int64_t pieces, sources;
  ZC_HD float operator()(int64_t k, int64_t, int64_t i) const {
    return sumAt(q + k * piece.bytes(), pieces * piece.bytes(), sources, piece, i);
  }
};

/// Block b of all pieces' blocks. With `residual`, what it holds is added first, and it becomes
/// beta * residual + (1 - beta) * error.
template <typename T, typename Source> struct QuantizeBody {
  Source source;
  uint8_t *out;
  T *residual;
  QuantizedPiece q;
  PieceGrid grid; ///< the residual lies as the plain pieces do
  float beta;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t blocks = q.blocks(), k = index / blocks, begin = index % blocks * q.block;
    int64_t count = q.elements - begin < q.block ? q.elements - begin : q.block;
    uint8_t *piece = out + k * q.bytes();
    int64_t plain = grid.plainPiece(k);
    T *lost = residual ? residual + plain * q.elements : nullptr;
    auto given = [&](int64_t i) {
      float x = source(k, plain, begin + i);
      return lost ? x + load(lost[begin + i]) : x;
    };
    float largest = block.template reduce<MaxOf>(count, 0.0f, [&](int64_t i) { return std::fabs(given(i)); });
    BlockScale scale = scaleOf(largest, q.bits);
    auto valueOf = [&](int64_t i) {
      float x = given(i);
      int value = quantizedValue(x, scale);
      if (lost) {
        float error = x - static_cast<float>(value) * scale.scale;
        lost[begin + i] = store<T>(beta * load(lost[begin + i]) + (1 - beta) * error);
      }
      return value;
    };
    if (q.bits == 8)
      block.forEach(count, [&](int64_t i) { piece[begin + i] = static_cast<uint8_t>(valueOf(i)); });
    else // a byte has two; blocks start at even elements
      block.forEach((count + 1) / 2, [&](int64_t i) {
        int low = valueOf(2 * i) & 15, high = 2 * i + 1 < count ? valueOf(2 * i + 1) & 15 : 0;
        piece[begin / 2 + i] = static_cast<uint8_t>(low | high << 4);
      });
    block.once([&] {
      std::memcpy(piece + q.scalesAt() + 4 * (begin / q.block), &scale.scale, sizeof(scale.scale));
      if (begin + count == q.elements) // up to three bytes between values and scales
        for (int64_t i = q.bits == 8 ? q.elements : (q.elements + 1) / 2; i < q.scalesAt(); ++i)
          piece[i] = 0;
    });
  }
};

template <typename T> struct DequantizeBody {
  const uint8_t *q;
  T *y;
  QuantizedPiece piece;
  PieceGrid grid;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t parts = blocksFor(piece.elements), k = index / parts;
    const uint8_t *from = q + k * piece.bytes();
    T *to = y + grid.plainPiece(k) * piece.elements;
    forElements(block, index % parts, piece.elements, [&](int64_t i) { to[i] = store<T>(elementAt(from, piece, i)); });
  }
};

template <typename T> struct DequantizeSumBody {
  const uint8_t *q;
  T *y;
  QuantizedPiece piece;
  int64_t sources;
  float scale;
  bool accumulate;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    bool adds = accumulate && frame.context->micro > 0;
    forElements(block, index, piece.elements, [&](int64_t at) {
      T sum = store<T>(sumAt(q, piece.bytes(), sources, piece, at) * scale);
      y[at] = adds ? store<T>(static_cast<float>(load(y[at])) + static_cast<float>(load(sum))) : sum;
    });
  }
};

/// Quantizes what `ofElements` or `ofUnits(form)` gives.
template <typename T, bool feeds, typename Launcher, typename Source, typename SourceOf>
void quantizeFrom(const Launcher &launch, const shapes::QuantizeShape &s, void *const *operands,
                  std::initializer_list<const void *> plain, std::initializer_list<const void *> quantized,
                  const Source &ofElements, const SourceOf &ofUnits) {
  auto *out = static_cast<uint8_t *>(operands[1]);
  auto *residual = feeds ? static_cast<T *>(operands[2]) : nullptr;
  const bool isDone = withUnitForm(s, plain, quantized, [&](auto form) {
    const UnitGrid grid(s);
    const auto source = ofUnits(form);
    using Units = std::decay_t<decltype(source)>;
    launch.template blocks<kUnitThreads>(
        grid.count(s.pieces), QuantizeUnitsBody<T, decltype(form), Units, feeds>{grid, source, out, residual, s.beta});
  });
  if (!isDone)
    launch.template blocks<256>(s.pieces * s.piece.blocks(),
                                QuantizeBody<T, Source>{ofElements, out, residual, s.piece, s.grid, s.beta});
}

template <typename Target> Prepared<Target> prepareQuantize(const KernelSpec &spec) {
  Result<shapes::QuantizeShape> read = shapes::readQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      const auto *x = static_cast<const T *>(operands[0]);
      const PlainSource<T> elements{x, s.piece.elements};
      auto units = [&](auto) { return PlainUnits<T>{x}; };
      if (s.hasResidual)
        quantizeFrom<T, true>(launch, s, operands, {x, operands[2]}, {operands[1]}, elements, units);
      else
        quantizeFrom<T, false>(launch, s, operands, {x}, {operands[1]}, elements, units);
    });
  });
}

template <typename Target> Prepared<Target> prepareDequantizeSumQuantize(const KernelSpec &spec) {
  Result<shapes::QuantizeShape> read = shapes::readDequantizeSumQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      const auto *q = static_cast<const uint8_t *>(operands[0]);
      const SummedSource elements{q, s.piece, s.pieces, s.sources};
      auto units = [&](auto form) { return SummedUnits<decltype(form)>{q, s.pieces * s.piece.bytes(), s.sources}; };
      if (s.hasResidual)
        quantizeFrom<T, true>(launch, s, operands, {operands[2]}, {q, operands[1]}, elements, units);
      else // of no type
        quantizeFrom<float, false>(launch, s, operands, {}, {q, operands[1]}, elements, units);
    });
  });
}

/// y from quantized pieces by units, where they are; of sourceOf(form).
template <typename T, bool sums, typename Launcher, typename SourceOf>
bool dequantizeUnits(const Launcher &launch, const shapes::QuantizeShape &s, const uint8_t *q, T *y,
                     const SourceOf &sourceOf) {
  return withUnitForm(s, {y}, {q}, [&](auto form) {
    const UnitGrid grid(s);
    launch.template blocks<kUnitThreads>(grid.count(s.pieces), DequantizeUnitsBody<T, decltype(form), sums>{
                                                                   grid, sourceOf(form), y, s.scale, s.accumulate});
  });
}

template <typename Target> Prepared<Target> prepareDequantize(const KernelSpec &spec) {
  Result<shapes::QuantizeShape> read = shapes::readDequantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      const auto *q = static_cast<const uint8_t *>(operands[0]);
      auto *y = static_cast<T *>(operands[1]);
      auto source = [&](auto form) { return QuantizedUnits<decltype(form)>{q}; };
      if (s.piece.elements > 0 && !dequantizeUnits<T, false>(launch, s, q, y, source))
        launch.template blocks<kElementThreads>(s.pieces * blocksFor(s.piece.elements),
                                                DequantizeBody<T>{q, y, s.piece, s.grid});
    });
  });
}

template <typename Target> Prepared<Target> prepareDequantizeSum(const KernelSpec &spec) {
  Result<shapes::QuantizeShape> read = shapes::readDequantizeSum(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      const auto *q = static_cast<const uint8_t *>(operands[0]);
      auto *y = static_cast<T *>(operands[1]);
      auto source = [&](auto form) { return SummedUnits<decltype(form)>{q, s.piece.bytes(), s.sources}; };
      if (!dequantizeUnits<T, true>(launch, s, q, y, source))
        overElements(launch, s.piece.elements, DequantizeSumBody<T>{q, y, s.piece, s.sources, s.scale, s.accumulate});
    });
  });
}

template <typename Target, typename Registry> void addQuantization(Registry &registry) {
  registry.add("quantize", prepareQuantize<Target>);
  registry.add("dequantize", prepareDequantize<Target>);
  registry.add("dequantize_sum_quantize", prepareDequantizeSumQuantize<Target>);
  registry.add("dequantize_sum", prepareDequantizeSum<Target>);
}

} // namespace zc::cuda
