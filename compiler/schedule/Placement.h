//===- Placement.h - where plan-memory says values are ---------------------------===//
//
// plan-memory leaves its result on the zero level as attributes, read by lower-to-plan:
//   plan.results (operations), plan.inputs (programs): an array of #plan.operand, one per result or block argument;
//   plan.parameters, plan.gradients, plan.master, plan.moment1, plan.moment2 (buckets), plan.slice (buffers): slices.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

#include "mlir/IR/BuiltinOps.h"

namespace zc::placement {

inline constexpr llvm::StringLiteral kResults = "plan.results";
inline constexpr llvm::StringLiteral kInputs = "plan.inputs";
inline constexpr llvm::StringLiteral kLossSlice = "loss_sum";
inline constexpr llvm::StringLiteral kNormSlice = "grad_norm";

/// Bytes of one element as stored; bool takes one.
inline int64_t bytesOfElement(mlir::Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }
inline int64_t bytesOf(mlir::RankedTensorType type) {
  return type.getNumElements() * bytesOfElement(type.getElementType());
}
/// The flat tensor that a value of tensor or buffer type is in memory.
inline mlir::RankedTensorType storedType(mlir::Type type) {
  if (auto buffer = llvm::dyn_cast<zero::BufferType>(type))
    return mlir::RankedTensorType::get({buffer.getNumElements()}, buffer.getElementType());
  return llvm::cast<mlir::RankedTensorType>(type);
}

/// Number of fp32 moments an update rule keeps.
inline unsigned numMoments(graph::Optimizer rule) {
  switch (rule) {
  case graph::Optimizer::adamw:
  case graph::Optimizer::adam:
    return 2;
  case graph::Optimizer::momentum:
    return 1;
  case graph::Optimizer::sgd:
    return 0;
  }
  return 0;
}

} // namespace zc::placement
