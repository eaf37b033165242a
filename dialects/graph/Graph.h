//===- Graph.h - the graph dialect: a training step on whole tensors --------===//
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace zc::graph {
/// Elements of all results: the flops of an op that says nothing better.
double defaultFlops(mlir::Operation *op);
/// Bytes of all operands and results.
double defaultBytes(mlir::Operation *op);
/// Whether the op is marked OverwritesOperands and operand `index` has result 0's type.
bool mayOverwriteOperand(mlir::Operation *op, unsigned index);

/// Trait: result 0 may be written over any operand of its type.
template <typename ConcreteType>
class OverwritesOperands : public mlir::OpTrait::TraitBase<ConcreteType, OverwritesOperands> {};
} // namespace zc::graph

#include "dialects/graph/GraphDialect.h.inc"
#include "dialects/graph/GraphEnums.h.inc"
#include "dialects/graph/GraphInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/graph/GraphAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.h.inc"
