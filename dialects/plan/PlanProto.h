//===- PlanProto.h - the plan dialect and the plan file's message, one to one --------===//
#pragma once

#include "dialects/plan/Plan.h"
#include "runtime/plan/plan.pb.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace zc::plan {

/// Attribute of a module: the command that compiles the plan again.
inline constexpr llvm::StringLiteral kCommand = "plan.command";

/// The message of a module of the plan dialect. What has no operation stands in the module's attributes `graph.model`,
/// `graph.training`, `graph.target` (ModuleAttrs.h), `plan.execution` (Execution.h) and `plan.command` (a string).
/// Emits an error and fails on references to what is not there. Without `nodes` steps do not name theirs, which are
/// most of the work, and nothing that plans asks for.
mlir::FailureOr<planpb::Plan> toProto(mlir::ModuleOp module, bool nodes = true);

/// The inverse. Fails on a message that is not well formed; it need not be verified.
mlir::OwningOpRef<mlir::ModuleOp> fromProto(mlir::MLIRContext &context, const planpb::Plan &plan);

/// The waits of a step, as an attribute.
mlir::ArrayAttr waitsOf(mlir::MLIRContext &context, const planpb::Step &step);

/// Little-endian elements, row major; bool takes a byte. A splat is written out.
std::string rawBytesOf(mlir::ElementsAttr elements);
/// The inverse; null if the sizes differ.
mlir::ElementsAttr elementsFromRawBytes(mlir::RankedTensorType type, llvm::StringRef bytes);

} // namespace zc::plan
