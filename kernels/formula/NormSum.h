//===- NormSum.h - exact sums of doubles in fixed point -----------------------===//
//
// Sums of squares over parameters must not depend on how buckets and shards were cut. Each aligned block of 64 elements
// has one sum in double; those are added here as integers, where order does not matter. In the manner of Kulisch's
// long accumulator ("Computer Arithmetic and Validity", 2008, chapter 8), cut to the range squares of fp32 can have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/HostDevice.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace zc::formula {

constexpr int kNormLimbs = 24;      ///< int64 elements of an accumulator
constexpr int kNormDigits = 22;     ///< digits of 32 bits, least significant first
constexpr int kNormExponent = -320; ///< weight of the lowest bit
constexpr int64_t kNormBlock = 64;  ///< elements per block

/// Adds value << position.
ZC_HD void addShifted(int64_t *limbs, uint64_t value, int position) {
  auto shifted = static_cast<unsigned __int128>(value) << (position % 32);
  for (int limb = position / 32; shifted != 0; ++limb, shifted >>= 32)
    limbs[limb] += static_cast<int64_t>(static_cast<uint32_t>(shifted));
}

/// Adds `value` >= 0. Bits below 2^-320 are dropped; values that are not finite, or reach 2^380, are counted in
/// limb 22.
ZC_HD void addToNorm(int64_t *limbs, double value) {
  if (!(value < 0x1p380)) {
    ++limbs[kNormDigits];
    return;
  }
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  int biased = static_cast<int>(bits >> 52 & 2047);
  uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (biased ? uint64_t{1} << 52 : 0);
  // value = mantissa * 2^(max(biased, 1) - 1075); position of its lowest bit in the accumulator:
  int position = (biased ? biased : 1) - 1075 - kNormExponent;
  if (position < 0) {
    if (position <= -64)
      return;
    mantissa >>= -position;
    position = 0;
  }
  addShifted(limbs, mantissa, position);
}
/// Carries, so that every digit but the last is in [0, 2^32): equal sums have equal limbs.
ZC_HD void normalizeNorm(int64_t *limbs) {
  int64_t carry = 0;
  for (int i = 0; i < kNormDigits; ++i) {
    int64_t digit = limbs[i] + carry;
    carry = i + 1 < kNormDigits ? digit >> 32 : 0;
    limbs[i] = digit - carry * (int64_t{1} << 32);
  }
}
/// The sum, rounded to double; NaN if anything was not finite.
ZC_HD double normValue(const int64_t *limbs) {
  if (limbs[kNormDigits] != 0)
    return std::numeric_limits<double>::quiet_NaN();
  // From the top: each digit is far below the last bit of the sum of those two above it.
  double sum = 0;
  for (int i = kNormDigits; i-- > 0;)
    sum += std::ldexp(static_cast<double>(limbs[i]), 32 * i + kNormExponent);
  return sum;
}

/// The same sum for many values: their digits are added up by exponent first, without a branch or a carry, and go to
/// the limbs in the end. For up to 2^32 values.
class NormBins {
public:
  /// As addToNorm(limbs, value).
  void add(int64_t *limbs, double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    uint64_t bin = (bits >> 52) - kFirst; // a negative number's and NaN's, too, are out of range
    if (bin >= kBins)
      return addToNorm(limbs, value);
    low[bin] += bits & 0xffffffff;
    high[bin] += (bits >> 32 & 0xfffff) | 0x100000;
  }
  /// Adds what is in the bins. Once.
  void addTo(int64_t *limbs) const {
    for (size_t bin = 0; bin < kBins; ++bin)
      if (high[bin] != 0) {
        addShifted(limbs, low[bin], static_cast<int>(bin));
        addShifted(limbs, high[bin], static_cast<int>(bin) + 32);
      }
  }

private:
  /// Exponents, as in a double's bits, from 2^-268, below which addToNorm drops bits, up to 2^263: sums of 64 squares
  /// of fp32 are smaller.
  static constexpr uint64_t kFirst = 1075 + kNormExponent, kBins = 268 + 263;
  std::array<uint64_t, kBins> low{}, high{}; ///< sums of mantissas' lower 32 bits, and of the rest
};

} // namespace zc::formula
