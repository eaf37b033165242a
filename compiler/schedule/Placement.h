//===- Placement.h - where plan-memory says values are ---------------------------===//
//
// plan-memory leaves its result on the zero level as attributes; lower-to-plan reads them:
//   plan.results (operations), plan.inputs (programs): an array of #plan.operand, one per result or block argument;
//   plan.workspace (operations): a #plan.operand of what their step works in;
//   plan.kept, plan.kept_input (operations; keep-packed): a #plan.operand of what their kernel keeps of which input;
//   plan.live_bytes (programs): bytes of the device that no plan could be below, for people who read dumps, and a test;
//   plan.short_tier (the module): as #plan.tier the tier whose budget does not suffice, where plan-memory failed for
//   that; plan.parameters, plan.gradients, plan.master, plan.moment1, plan.moment2 (buckets), plan.slice (buffers):
//   slices.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

#include "mlir/IR/BuiltinOps.h"

namespace zc::placement {

inline constexpr llvm::StringLiteral kResults = "plan.results";
inline constexpr llvm::StringLiteral kInputs = "plan.inputs";
inline constexpr llvm::StringLiteral kWorkspace = "plan.workspace";
inline constexpr llvm::StringLiteral kKept = "plan.kept";
inline constexpr llvm::StringLiteral kKeptInput = "plan.kept_input";
inline constexpr llvm::StringLiteral kLiveBytes = "plan.live_bytes";
inline constexpr llvm::StringLiteral kShortTier = "plan.short_tier";
inline constexpr llvm::StringLiteral kSlice = "plan.slice";

/// The attribute of a bucket that names the slice of `what`.
inline std::string storageAttribute(zero::Storage what) { return ("plan." + zero::stringifyStorage(what)).str(); }
inline mlir::FlatSymbolRefAttr storageOf(zero::BucketOp bucket, zero::Storage what) {
  return bucket->getAttrOfType<mlir::FlatSymbolRefAttr>(storageAttribute(what));
}

inline plan::OperandAttr placeOf(mlir::Value value) {
  if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
    auto places = argument.getOwner()->getParentOp()->getAttrOfType<mlir::ArrayAttr>(kInputs);
    return llvm::cast<plan::OperandAttr>(places[argument.getArgNumber()]);
  }
  auto places = llvm::cast<mlir::ArrayAttr>(value.getDefiningOp()->getDiscardableAttr(kResults));
  return llvm::cast<plan::OperandAttr>(places[llvm::cast<mlir::OpResult>(value).getResultNumber()]);
}

/// The slice of a parameter that is a buffer; null of others.
inline mlir::FlatSymbolRefAttr sliceOf(mlir::Operation *parameter) {
  return parameter->getAttrOfType<mlir::FlatSymbolRefAttr>(kSlice);
}

} // namespace zc::placement
