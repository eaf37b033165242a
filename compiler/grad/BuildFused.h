//===- BuildFused.h - operations as a program -------------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"
#include "kernels/FusedProgram.h"

#include <optional>

namespace zc {

/// The one value of a constant, which a program has in itself.
std::optional<float> immediateOf(mlir::Value value);

/// What `op` is in a program; nothing where it has no place in one.
std::optional<FusedInstruction> findInstruction(mlir::Operation *op);

/// Registers that an instruction takes: of `masked` its scale is a constant of its own.
inline size_t registersOf(const FusedInstruction &instruction) { return instruction.code == FusedCode::masked ? 2 : 1; }

/// A program and its operands.
struct Fused {
  FusedProgram program;
  llvm::SmallVector<mlir::Value> inputs, results;
};

/// An operation of a program, and its instruction; null for a broadcast of what the program then reads.
struct FusedStep {
  mlir::Operation *op;
  const FusedInstruction *instruction;
};

/// `steps`, in order, as a program that gives `results`. What is computed twice in the same way is one instruction.
Fused buildFused(llvm::ArrayRef<FusedStep> steps, llvm::ArrayRef<mlir::Value> results);

} // namespace zc
