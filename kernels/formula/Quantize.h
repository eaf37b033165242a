//===- Quantize.h - ZeRO++'s arithmetic on block-quantized pieces ------------------===//
//
// The same on every processor, bit for bit: scale = largest / most (127 or 7), value = nearest integer (ties to even)
// of x * (most / largest), all in fp32; a block whose largest is 0 or too small for most / largest to be finite has
// scale 0; one that holds an infinity or a NaN has scale NaN, so that it cannot go unnoticed. Sums run over sources in
// order, in fp32. Layout: kernels/Quantized.h. Source: ZeRO++ (arXiv 2306.10209, sections 3.1 and 3.3).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/HostDevice.h"
#include "kernels/Quantized.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace zc::formula {

struct BlockScale {
  float scale, inverse; ///< inverse 0: all values are 0
};

ZC_HD BlockScale scaleOf(float largest, int64_t bits) {
  float most = bits == 8 ? 127 : 7;
  if (!std::isfinite(largest))
    return {std::numeric_limits<float>::quiet_NaN(), 0};
  float inverse = most / largest;
  return std::isfinite(inverse) ? BlockScale{largest / most, inverse} : BlockScale{0, 0};
}

/// x as an integer of the block's scale.
ZC_HD int quantizedValue(float x, const BlockScale &block) {
  return block.inverse == 0 ? 0 : static_cast<int>(std::nearbyint(x * block.inverse));
}

ZC_HD int valueAt(const uint8_t *piece, int64_t bits, int64_t i) {
  if (bits == 8)
    return static_cast<int8_t>(piece[i]);
  int half = i % 2 ? piece[i / 2] >> 4 : piece[i / 2] & 15;
  return half < 8 ? half : half - 16;
}

ZC_HD float scaleAt(const uint8_t *piece, const QuantizedPiece &q, int64_t i) {
  float scale;
  std::memcpy(&scale, piece + q.scalesAt() + 4 * (i / q.block), sizeof(scale));
  return scale;
}

/// Element i of a quantized piece.
ZC_HD float elementAt(const uint8_t *piece, const QuantizedPiece &q, int64_t i) {
  return static_cast<float>(valueAt(piece, q.bits, i)) * scaleAt(piece, q, i);
}

/// The sum over sources of element i; `stride` bytes from one to the next.
ZC_HD float sumAt(const uint8_t *first, int64_t stride, int64_t sources, const QuantizedPiece &q, int64_t i) {
  float sum = elementAt(first, q, i);
  for (int64_t s = 1; s < sources; ++s)
    sum += elementAt(first + s * stride, q, i);
  return sum;
}

} // namespace zc::formula
