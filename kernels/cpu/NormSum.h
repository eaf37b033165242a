//===- NormSum.h - exact sums of doubles in fixed point -----------------------===//
//
// Sums of squares over parameters must not depend on how buckets and shards were cut. Each aligned block of 64 elements
// has one sum in double; those are added here as integers, where order does not matter. In the manner of Kulisch's
// long accumulator ("Computer Arithmetic and Validity", 2008, chapter 8), cut to the range squares of fp32 can have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

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

} // namespace zc::cpu
