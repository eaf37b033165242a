// ZeRO++'s kernels on block-quantized pieces (kernels/Quantized.h; arXiv 2306.10209, sections 3.1 and 3.3), and the
// error feedback of LoCo (arXiv 2407.04480, section 3).
#include "kernels/formula/Quantize.h"
#include "kernels/cpu/Support.h"
#include "kernels/shapes/Shapes.h"

#include <cstring>

namespace zc::cpu {
namespace {

void setValue(uint8_t *piece, int64_t bits, int64_t i, int value) {
  if (bits == 8)
    piece[i] = static_cast<uint8_t>(value);
  else if (i % 2 == 0)
    piece[i / 2] = static_cast<uint8_t>(value & 15);
  else
    piece[i / 2] = static_cast<uint8_t>(piece[i / 2] | (value & 15) << 4);
}

/// Quantizes plain(i), i in [0, elements). With `residual`, what it holds is added first, and it becomes
/// beta * residual + (1 - beta) * error.
template <typename T, typename Plain>
void quantizePiece(const QuantizeShape &s, uint8_t *out, T *residual, Plain plain) {
  const QuantizedPiece &q = s.piece;
  auto given = [&](int64_t i) { return residual ? plain(i) + load(residual[i]) : plain(i); };
  std::memset(out, 0, static_cast<size_t>(q.scalesAt()));
  for (int64_t begin = 0; begin < q.elements; begin += q.block) {
    int64_t end = std::min(begin + q.block, q.elements);
    float largest = 0;
    for (int64_t i = begin; i < end; ++i)
      if (float size = std::fabs(given(i)); !(size <= largest))
        largest = std::isnan(largest) ? largest : size;
    BlockScale block = scaleOf(largest, q.bits);
    for (int64_t i = begin; i < end; ++i) {
      float x = given(i);
      int value = quantizedValue(x, block);
      setValue(out, q.bits, i, value);
      if (residual) {
        float error = x - static_cast<float>(value) * block.scale;
        residual[i] = store<T>(s.beta * load(residual[i]) + (1 - s.beta) * error);
      }
    }
    std::memcpy(out + q.scalesAt() + 4 * (begin / q.block), &block.scale, sizeof(block.scale));
  }
}

Prepared prepareQuantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      for (int64_t k = 0; k < s.pieces; ++k) {
        int64_t from = s.grid.plainPiece(k) * s.piece.elements;
        T *residual = s.hasResidual ? as<T>(operands[2]) + from : nullptr;
        quantizePiece(s, as<uint8_t>(operands[1]) + k * s.piece.bytes(), residual,
                      [x = as<T>(operands[0]) + from](int64_t i) { return static_cast<float>(load(x[i])); });
      }
    });
  });
}

Prepared prepareDequantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      for (int64_t k = 0; k < s.pieces; ++k) {
        const uint8_t *piece = as<uint8_t>(operands[0]) + k * s.piece.bytes();
        T *y = as<T>(operands[1]) + s.grid.plainPiece(k) * s.piece.elements;
        for (int64_t i = 0; i < s.piece.elements; ++i)
          y[i] = store<T>(elementAt(piece, s.piece, i));
      }
    });
  });
}

Prepared prepareDequantizeSumQuantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantizeSumQuantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      for (int64_t k = 0; k < s.pieces; ++k) {
        const uint8_t *first = as<uint8_t>(operands[0]) + k * s.piece.bytes();
        T *residual = s.hasResidual ? as<T>(operands[2]) + k * s.piece.elements : nullptr;
        quantizePiece(s, as<uint8_t>(operands[1]) + k * s.piece.bytes(), residual,
                      [&](int64_t i) { return sumAt(first, s.pieces * s.piece.bytes(), s.sources, s.piece, i); });
      }
    });
  });
}

Prepared prepareDequantizeSum(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantizeSum(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &context) {
      T *y = as<T>(operands[1]);
      bool adds = s.accumulate && context.micro > 0;
      for (int64_t i = 0; i < s.piece.elements; ++i) {
        T sum = store<T>(sumAt(as<uint8_t>(operands[0]), s.piece.bytes(), s.sources, s.piece, i) * s.scale);
        y[i] = adds ? store<T>(static_cast<float>(load(y[i])) + static_cast<float>(load(sum))) : sum;
      }
    });
  });
}

} // namespace

void addQuantize(KernelRegistry &registry) {
  registry.add("quantize", prepareQuantize);
  registry.add("dequantize", prepareDequantize);
  registry.add("dequantize_sum_quantize", prepareDequantizeSumQuantize);
  registry.add("dequantize_sum", prepareDequantizeSum);
}

} // namespace zc::cpu
