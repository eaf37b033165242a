//===- Prologue.h - programs that compute what a kernel reads ------------------------------===//
//
// A spec of another kernel than `fused` may have the attribute `program` too (FusedProgram.h): what the kernel's
// description calls its operand 0 is then the program's one result. The step's first operands are the program's inputs,
// which broadcast to the result's shape; the description's other operands follow. The kernel computes the operand tile
// by tile while it reads it, so it is never in memory, and has the bits that it would have there. Which kernels can do
// so is one of their traits (Traits.h); all others refuse such a spec.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/StridedView.h"
#include "kernels/FusedProgram.h"

#include <optional>
#include <string_view>

namespace zc {

/// Can the spec's kernel, `fused` included, have its program, if there is one? Errors: corrupt plan.
Status checkProgram(const KernelSpec &spec);

/// What computes an operand.
struct Prologue {
  FusedProgram program;
  std::vector<TensorType> inputs; ///< the step's first operands
  TensorType result;
  /// Of the program's inputs and its result, each whole.
  std::vector<StridedView> views() const;
};

/// A spec as its kernel's description has it, without `program`, and what computes its operand 0, if a program does.
struct ProgrammedSpec {
  KernelSpec spec;
  std::optional<Prologue> prologue;
  /// Where operand `index` of the description stands among the step's; 0 has none where a program computes it.
  size_t place(size_t index) const { return index + (prologue ? prologue->inputs.size() - 1 : 0); }
};
/// Errors: as checkProgram.
Result<ProgrammedSpec> throughProgram(const KernelSpec &spec);

} // namespace zc
