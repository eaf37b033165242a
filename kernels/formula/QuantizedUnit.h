//===- QuantizedUnit.h - eight quantized values as words of 32 bits ---------------------===//
//
// What formula/Quantize.h does with a value, done with what one load of words brings: the same bits, without a
// conversion between integers and floats, a shift or a byte by itself per value. (Conversions run at an eighth of the
// speed of sums on a GPU.) Limits memory, not instructions: 3 or 4 of them a value.
//
// A float in [2^23, 2^24) is an integer, and its lowest bits are that integer's. So x + 2^23 rounds x to the nearest
// integer, ties to even, and has it in its lowest bits; and bits that are put below 2^23's are a float that is 2^23 too
// large. Values are made positive for it, by an even number, which leaves ties as they are.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Float16.h"
#include "kernels/formula/Quantize.h"

namespace zc::formula {

constexpr int kUnit = 8; ///< elements that are loaded and stored at once

template <int bits> class QuantizedUnit {
public:
  static constexpr int kWords = kUnit * bits / 32, kBytes = 4 * kWords;
  using Words = uint32_t[kWords];

  /// quantizedValue of each x; `value` has them as floats.
  static ZC_HD void encode(const float (&x)[kUnit], const BlockScale &block, float (&value)[kUnit], Words &words) {
    constexpr float bias = 0x1p23f + kOffset;
    for (int w = 0; w < kWords; ++w) {
      uint32_t sum = 0, biases = 0;
      for (int i = 0; i < kPerWord; ++i) {
        const int k = w * kPerWord + i;
        const float biased = block.inverse == 0 ? bias : x[k] * block.inverse + bias;
        value[k] = biased - bias;
        sum += detail::bitsOf(biased) << bits * i;
        biases += bitsOfPower(23) << bits * i;
      }
      words[w] = (sum - biases) ^ kSigns;
    }
  }

  /// The values of all.
  static ZC_HD void decode(const Words &words, float (&value)[kUnit]) {
    for (int w = 0; w < kWords; ++w)
      for (int i = 0; i < kPerWord; ++i) {
        // In the lower or upper half of the word, at bit `at` of it: below that of 2^(23 - at), it counts 2^at times.
        const uint32_t half = words[w] >> bits * i / 16 * 16;
        const int at = bits * i % 16;
        const uint32_t power = bitsOfPower(23 - at);
        value[w * kPerWord + i] =
            detail::floatOf(changed(half, kMask << at, power | kOffset << at)) - (detail::floatOf(power) + kOffset);
      }
  }

private:
  static constexpr int kPerWord = 32 / bits;
  static constexpr uint32_t kMask = (1u << bits) - 1;
  static constexpr uint32_t kOffset = 1u << (bits - 1);
  static constexpr uint32_t kSigns = bits == 8 ? 0x80808080 : 0x88888888; ///< two's complement to value + kOffset
  static constexpr uint32_t bitsOfPower(int exponent) { return static_cast<uint32_t>(127 + exponent) << 23; }
  /// (word & mask) ^ other: one instruction of a GPU, where its compiler makes two of two constants.
  static ZC_HD uint32_t changed(uint32_t word, uint32_t mask, uint32_t other) {
#ifdef __CUDA_ARCH__
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(word), "r"(mask), "r"(other));
    return result;
#else
    return (word & mask) ^ other;
#endif
  }
};

} // namespace zc::formula
