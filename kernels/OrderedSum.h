//===- OrderedSum.h - the sum over ranks, in rank order -----------------------===//
#pragma once

#include "base/Tensor.h"

#include <cstdint>

namespace zc {

/// Element i of input r is the i-th at inputs(r).
struct OrderedSum {
  const void *const *inputs = nullptr; ///< of each rank
  int ranks = 1;
  uint64_t skip = 0; ///< elements before the first one, in every input
  void *output = nullptr;
  uint64_t elements = 0;
  DType inputType = DType::f32;
  DType outputType = DType::f32;
  double scale = 1;
  bool accumulate = false;
};

/// Types that orderedSum takes: f32, bf16, f16, f64, i64 to themselves, bf16 and f16 to f32.
bool isSummable(DType input, DType output);

/// s[i] = ((input_0[i] + input_1[i]) + ...) * scale, rounded once to the output's type; output[i] = s[i], or output[i]
/// + s[i], rounded again, if `accumulate`: what summing into a buffer of the output's type and adding that gives,
/// wherever the buffer is. In fp32 for f32, bf16 and f16, without fused multiply-add; in f64 for f64; modulo 2^64 for
/// i64, without scale. `output` may be a part of one input if it is the part summed. Types are summable.
void orderedSum(const OrderedSum &sum);
/// The same, element by element, whatever the CPU.
void plainOrderedSum(const OrderedSum &sum);
/// The same with the CPU's vectors; false, and does nothing, where it has none, and for other types.
bool orderedSumByVectors(const OrderedSum &sum);

} // namespace zc
