//===- FusedPlain.h - what an instruction of a fused program does to one element ------===//
#pragma once

#include "kernels/Prologue.h"
#include "kernels/Views.h"
#include "kernels/cpu/Support.h"
#include "kernels/shapes/Strided.h"

namespace zc::cpu {

/// In fp32, before it is rounded to the register's type; bools are 0 and 1.
using FusedPlain = float (*)(float a, float b, float c);
/// Null of a constant and of the end.
FusedPlain fusedPlain(FusedCode code);

/// A program on tensors, index by index.
class PlainProgram {
public:
  /// `views`: of the inputs.
  PlainProgram(FusedProgram program, const std::vector<StridedView> &views, const Dims &shape);
  explicit PlainProgram(const Prologue &prologue)
      : PlainProgram(prologue.program, prologue.views(), prologue.result.dims) {}
  using Registers = std::array<float, kFusedRegisters>;
  /// All registers at element `at` of the results' shape, each rounded to its type.
  Registers run(void *const *inputs, int64_t at) const;
  /// The first result there.
  float result(void *const *inputs, int64_t at) const { return run(inputs, at)[program.results[0]]; }

private:
  FusedProgram program;
  std::vector<StridedView> inputs; ///< sizes are the results', strides along these
};

} // namespace zc::cpu
