//===- NormSum.h - exact sums of doubles in fixed point -----------------------===//
//
// Sums of squares over parameters must not depend on how buckets and shards were cut. Each aligned block of 64 elements
// has one sum in double; those are added here as integers, where order does not matter. In the manner of Kulisch's
// long accumulator ("Computer Arithmetic and Validity", 2008, chapter 8), cut to the range squares of fp32 can have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/HostDevice.h"

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

/// mantissa << position: a value >= 0, in units of the accumulator's lowest bit. Position is negative where bits of it
/// are dropped.
struct NormTerm {
  uint64_t mantissa;
  int position;
};
/// Of a finite value.
ZC_HD NormTerm normTerm(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const int biased = static_cast<int>(bits >> 52 & 2047);
  // value = mantissa * 2^(max(biased, 1) - 1075)
  return {(bits & ((uint64_t{1} << 52) - 1)) | (biased ? uint64_t{1} << 52 : 0),
          (biased ? biased : 1) - 1075 - kNormExponent};
}
/// Is a value >= 0 a sum's, and not counted as one that is not finite or too large?
ZC_HD bool isNormTerm(double value) { return value < 0x1p380; }

/// Adds `value` >= 0. Bits below 2^-320 are dropped; values that are not finite, or reach 2^380, are counted in
/// limb 22.
ZC_HD void addToNorm(int64_t *limbs, double value) {
  if (!isNormTerm(value)) {
    ++limbs[kNormDigits];
    return;
  }
  const NormTerm term = normTerm(value);
  if (term.position >= 0)
    addShifted(limbs, term.mantissa, term.position);
  else if (term.position > -64)
    addShifted(limbs, term.mantissa >> -term.position, 0);
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

/// The same sum for values of about one size: the few limbs that they reach. Every index is known when it is compiled,
/// so that a GPU has them in registers.
struct NormWindow {
  static constexpr int kLimbs = 6;
  int64_t limbs[kLimbs]; ///< from limb `first` on, which is the same for all that is added

  /// For values of about this size: 2^32 times as large or 2^64 times as small are taken.
  static ZC_HD int firstFor(double value) {
    const int limb = isNormTerm(value) ? normTerm(value).position / 32 - 2 : kNormDigits;
    return limb < 0 ? 0 : limb < kNormDigits - kLimbs ? limb : kNormDigits - kLimbs;
  }
  static ZC_HD bool takes(int first, double value) {
    if (!isNormTerm(value))
      return false;
    const NormTerm term = normTerm(value);
    return term.mantissa == 0 || (term.position >= 32 * first && term.position < 32 * (first + kLimbs - 2));
  }
  /// As addToNorm, of what is taken.
  ZC_HD void add(int first, double value) {
    const NormTerm term = normTerm(value);
    const int shift = term.position & 31, limb = term.position / 32 - first;
    const uint64_t low = term.mantissa << shift;
    const int64_t digits[3] = {static_cast<int64_t>(low & 0xffffffff), static_cast<int64_t>(low >> 32),
                               static_cast<int64_t>(term.mantissa >> 32 >> (32 - shift))};
    for (int k = 0; k < kLimbs; ++k)
      limbs[k] += k == limb ? digits[0] : k == limb + 1 ? digits[1] : k == limb + 2 ? digits[2] : 0;
  }
  ZC_HD void add(const NormWindow &other) {
    for (int k = 0; k < kLimbs; ++k)
      limbs[k] += other.limbs[k];
  }
};

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
