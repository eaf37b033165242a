//===- FusedProgram.h - a chain of element-wise operations as vector instructions ----===//
//
// The kernel `fused` computes, at each index of its results' one shape, a short program on registers: first the inputs
// (which broadcast to that shape), then a register for each instruction, written once. A register has an element type:
// f32, bf16, f16 or bool. What an instruction gives is rounded to its type, as if it had been stored: the bits are
// those of the operations one by one.
//
// Attribute `program`, words of 64 bits:
//   number of instructions,
//   for each: code, type, its operands' registers (of `constant` instead the bits of an fp32),
//   0 (end), the register of each result.
// Types: 0 f32, 1 bf16, 2 f16, 3 bool. Codes are FusedCode's numbers, which never change: they are in plans.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"

namespace zc {

enum class FusedCode : uint8_t {
  end,
  constant,
  cast,
  select, // condition, a, b
  add,
  sub,
  mul,
  div,
  min,
  max,
  equal,
  less,
  lessEqual,
  boolAnd,
  boolOr,
  boolXor,
  boolNot,
  neg,
  abs,
  sign,
  exp,
  log,
  sqrt,
  reciprocal,
  sin,
  cos,
  tanh,
  sigmoid,
  erf,
  relu,
  silu,
  gelu,
  geluTanh,
  geluGrad,
  geluTanhGrad,
  siluGrad,
  pow,
  softplus,
  isNan,
  masked, // x, a bool, a scale in fp32: x scale where the bool is true, else 0
};
constexpr size_t kFusedCodes = static_cast<size_t>(FusedCode::masked) + 1;

/// Larger programs are refused.
constexpr size_t kFusedInputs = 16, kFusedResults = 4, kFusedRegisters = 40;

struct FusedInstruction {
  FusedCode code;
  DType type; ///< of its register
  std::array<size_t, 3> from = {};
  float value = 0; ///< of a constant; of what fusedInstructionOf makes of `dropout_grad`, its scale
};

struct FusedProgram {
  std::vector<DType> inputs;
  std::vector<FusedInstruction> instructions;
  std::vector<size_t> results; ///< registers of instructions, each once, of no constants

  DType typeOf(size_t reg) const { return reg < inputs.size() ? inputs[reg] : instructions[reg - inputs.size()].type; }
};

/// Operands of an instruction.
size_t fusedOperands(FusedCode code);
/// The instruction that does what the kernel `spec.name` does; nothing where there is none, or not on these types.
std::optional<FusedInstruction> fusedInstructionOf(const KernelSpec &spec);
/// May a register hold elements of this type?
bool isFusedType(DType type);

std::vector<int64_t> encode(const FusedProgram &program);
/// The program of a kernel `fused`, sound for its operands. Errors: corrupt plan, with the first thing that is wrong.
Result<FusedProgram> readFused(const KernelSpec &spec);
/// One of a single result, of any type, on `inputs`. Where there is none, `problem` says what is wrong.
std::optional<FusedProgram> readFused(const std::vector<int64_t> &words, std::vector<DType> inputs,
                                      std::string &problem);

} // namespace zc
