//===- Quantize.h - ZeRO++'s kernels on block-quantized pieces -------------------------===//
//
// A block of threads per block of elements; arithmetic of formula/Quantize.h, bit-equal with the CPU's. Limit: memory;
// goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"
#include "kernels/cuda/Launch.h"
#include "kernels/formula/Quantize.h"

namespace zc::cuda {

using namespace formula;

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

template <typename Target, bool sums> Prepared<Target> prepareQuantize(const KernelSpec &spec) {
  Result<cpu::QuantizeShape> read = sums ? cpu::readDequantizeSumQuantize(spec) : cpu::readQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      T *residual = s.hasResidual ? static_cast<T *>(operands[2]) : nullptr;
      auto *out = static_cast<uint8_t *>(operands[1]);
      int64_t count = s.pieces * s.piece.blocks();
      if constexpr (sums) {
        SummedSource source{static_cast<const uint8_t *>(operands[0]), s.piece, s.pieces, s.sources};
        overRows(launch, count, s.piece.block,
                 QuantizeBody<T, SummedSource>{source, out, residual, s.piece, s.grid, s.beta});
      } else {
        PlainSource<T> source{static_cast<const T *>(operands[0]), s.piece.elements};
        overRows(launch, count, s.piece.block,
                 QuantizeBody<T, PlainSource<T>>{source, out, residual, s.piece, s.grid, s.beta});
      }
    });
  });
}

template <typename Target> Prepared<Target> prepareDequantize(const KernelSpec &spec) {
  Result<cpu::QuantizeShape> read = cpu::readDequantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      if (s.piece.elements > 0)
        launch.template blocks<kElementThreads>(s.pieces * blocksFor(s.piece.elements),
                                                DequantizeBody<T>{static_cast<const uint8_t *>(operands[0]),
                                                                  static_cast<T *>(operands[1]), s.piece, s.grid});
    });
  });
}

template <typename Target> Prepared<Target> prepareDequantizeSum(const KernelSpec &spec) {
  Result<cpu::QuantizeShape> read = cpu::readDequantizeSum(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      overElements(launch, s.piece.elements,
                   DequantizeSumBody<T>{static_cast<const uint8_t *>(operands[0]), static_cast<T *>(operands[1]),
                                        s.piece, s.sources, s.scale, s.accumulate});
    });
  });
}

template <typename Target, typename Registry> void addQuantization(Registry &registry) {
  registry.add("quantize", prepareQuantize<Target, false>);
  registry.add("dequantize", prepareDequantize<Target>);
  registry.add("dequantize_sum_quantize", prepareQuantize<Target, true>);
  registry.add("dequantize_sum", prepareDequantizeSum<Target>);
}

} // namespace zc::cuda
