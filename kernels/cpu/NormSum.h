//===- NormSum.h - exact sums of doubles in fixed point -----------------------===//
//
// Sums of squares over parameters must not depend on how buckets and shards were cut. Each aligned block of 64 elements
// has one sum in double; those are added here as integers, where order does not matter. In the manner of Kulisch's
// long accumulator ("Computer Arithmetic and Validity", 2008, chapter 8), cut to the range squares of fp32 can have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace zc::cpu {

constexpr int kNormLimbs = 24;      ///< int64 elements of an accumulator
constexpr int kNormDigits = 22;     ///< digits of 32 bits, least significant first
constexpr int kNormExponent = -320; ///< weight of the lowest bit
constexpr int64_t kNormBlock = 64;  ///< elements per block

/// Adds `value` >= 0. Bits below 2^-320 are dropped; values that are not finite, or reach 2^380, are counted in
/// limb 22.
void addToNorm(int64_t *limbs, double value);
/// Carries, so that every digit but the last is in [0, 2^32): equal sums have equal limbs.
void normalizeNorm(int64_t *limbs);
/// The sum, rounded to double; NaN if anything was not finite.
double normValue(const int64_t *limbs);

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
  void addTo(int64_t *limbs) const;

private:
  /// Exponents, as in a double's bits, from 2^-268, below which addToNorm drops bits, up to 2^263: sums of 64 squares
  /// of fp32 are smaller.
  static constexpr uint64_t kFirst = 1075 + kNormExponent, kBins = 268 + 263;
  std::array<uint64_t, kBins> low{}, high{}; ///< sums of mantissas' lower 32 bits, and of the rest
};

} // namespace zc::cpu
