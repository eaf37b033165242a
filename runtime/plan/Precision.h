//===- Precision.h - types of a step's parameters and gradients ---------------------===//
#pragma once

#include "base/Names.h"

#include <cstdint>

namespace zc {

/// Type of parameters and gradients; master weights and optimizer state are fp32 in any case. With fp16 the loss of a
/// step that trains is scaled.
enum class Precision : uint8_t { fp32, bf16, fp16 };
constexpr std::array<const char *, 3> namesOf(Precision) { return {"fp32", "bf16", "fp16"}; }

/// How products of fp32 are computed where a GPU multiplies: CPUs know fp32 only.
enum class MatmulPrecision : uint8_t {
  ieee, ///< in fp32
  tf32, ///< of factors rounded to 10 bits of mantissa, by tensor cores; sums in fp32
};
constexpr std::array<const char *, 2> namesOf(MatmulPrecision) { return {"ieee", "tf32"}; }

} // namespace zc
