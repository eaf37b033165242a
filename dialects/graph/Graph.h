//===- Graph.h - the graph dialect: a training step on whole tensors --------===//
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "base/IndexRange.h"
#include "dialects/graph/Cut.h"
#include "dialects/graph/Layout.h"
#include "kernels/ScatterReduction.h"
#include "kernels/UpdateRule.h"
#include "runtime/plan/Precision.h"

#include <optional>

namespace zc {
enum class Target : uint8_t; // kernels/Target.h
struct StridedView;          // base/StridedView.h
} // namespace zc

namespace zc::graph {
/// Elements of all results: the flops of an op that says nothing better.
double defaultFlops(mlir::Operation *op);
/// Bytes of all results and of all operands, each once, or of what the op's views see of them.
double defaultBytes(mlir::Operation *op);
/// Of a result that is picked out of a tensor: read there, as often as it may be, at most all of it, and written.
double bytesOfPicked(mlir::Value from, mlir::Value result);
/// Whether the op is marked OverwritesOperands and operand `index` has the result's type.
bool mayOverwriteOperand(mlir::Operation *op, unsigned index, unsigned result);
/// What kernels/Workspace.h says of the op's kernel; 0 for views and for kernels that are not of this project.
int64_t defaultWorkspaceBytes(mlir::Operation *op, zc::Target target);

/// What an operand is to a layer. Import learns from it which stored tensors are trained.
enum class OperandRole {
  data,       ///< what is computed with; a constant here may as well be a table or a mask
  weight,     ///< a matrix, kernel or table of the layer
  vector,     ///< its scale or bias
  picked,     ///< slices are picked from it by index: a weight if something else says so too, or a table
  statistics, ///< what the layer has seen: stored beside its weights, but not trained
};

/// A number for an operand at which an op and its derivatives are finite (Singular), and what an operand is that needs
/// no such.
struct Harmless {
  enum Unless {
    never,
    positive,
    unmasked, ///< not all of a row is -inf
    exponent, ///< it goes to a known power that is a whole number of 1 or more
  };
  double number;
  Unless unless = never;
};

/// The op again on parts of its operands: attributes are its own, result types follow.
llvm::SmallVector<mlir::Value> buildSameOnParts(mlir::OpBuilder &builder, mlir::Operation *op, const OpCut &cut,
                                                mlir::ValueRange operands, int64_t ranks);

/// The value whose bytes `value` shows, behind views (KernelOp::getViewOperand); itself if it is no view.
mlir::Value viewedValue(mlir::Value value);
/// The operand that the kernel which computes `value` may put it in the place of, where nobody else needs that and a
/// kernel computes it too: the two, and what stands in front of them, may have one memory from the first on. Null:
/// none.
mlir::Value computedOver(mlir::Value value);
/// Is `op` a view: no kernel runs, its result shows the bytes of an operand?
bool isView(mlir::Operation *op);
/// Bytes of one element as stored; bool takes one.
inline int64_t bytesOfElement(mlir::Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }
inline int64_t bytesOf(mlir::RankedTensorType type) {
  return type.getNumElements() * bytesOfElement(type.getElementType());
}

/// Trait: result 0 may be written over any operand of its type.
template <typename ConcreteType>
class OverwritesOperands : public mlir::OpTrait::TraitBase<ConcreteType, OverwritesOperands> {};
/// Trait: an element of the result depends on the operands' elements at its index, after broadcasting.
template <typename ConcreteType> class Elementwise : public mlir::OpTrait::TraitBase<ConcreteType, Elementwise> {};
/// Trait, of what is elementwise: results and derivatives are finite where operands are filled up with zeros, as the
/// last rank's part of a tensor that is cut may be (one of 0 times infinity would reach what is no padding).
template <typename ConcreteType> class BearsZeros : public mlir::OpTrait::TraitBase<ConcreteType, BearsZeros> {};
/// Trait: elements of the result are those of operand 0, each of them, in another shape, place or type.
template <typename ConcreteType> class MovesElements : public mlir::OpTrait::TraitBase<ConcreteType, MovesElements> {};
/// Trait: results have no derivative by the operands: they are piecewise constant, or there to stop gradients. Of an
/// operation without it that is not Differentiable the derivative is not known.
template <typename ConcreteType> class StopsGradient : public mlir::OpTrait::TraitBase<ConcreteType, StopsGradient> {};
/// Trait: made anew at no cost worth memory: parameters, constants.
template <typename ConcreteType>
class FreeToRecompute : public mlir::OpTrait::TraitBase<ConcreteType, FreeToRecompute> {};
/// Trait: moves elements between the ranks of the model axis.
template <typename ConcreteType> class Collective : public mlir::OpTrait::TraitBase<ConcreteType, Collective> {};
/// Trait: its results are the same on all ranks of the model axis.
template <typename ConcreteType> class MakesWhole : public mlir::OpTrait::TraitBase<ConcreteType, MakesWhole> {};
/// Trait: each rank of the model axis has results of its own, whatever its operands are.
template <typename ConcreteType> class MakesParts : public mlir::OpTrait::TraitBase<ConcreteType, MakesParts> {};

/// Trait: the kernel can read operand 0 while a program computes it (kernels/Prologue.h).
template <typename ConcreteType> class TakesProgram : public mlir::OpTrait::TraitBase<ConcreteType, TakesProgram> {};

inline bool isElementwise(mlir::Operation *op) { return op->hasTrait<Elementwise>(); }
inline bool movesElements(mlir::Operation *op) { return op->hasTrait<MovesElements>(); }
inline bool stopsGradient(mlir::Operation *op) { return op->hasTrait<StopsGradient>(); }
inline bool takesProgram(mlir::Operation *op) { return op->hasTrait<TakesProgram>(); }
inline bool isCollective(mlir::Operation *op) { return op->hasTrait<Collective>(); }
inline bool isFreeToRecompute(mlir::Operation *op) { return op->hasTrait<FreeToRecompute>(); }
} // namespace zc::graph

#include "dialects/graph/GraphDialect.h.inc"
#include "dialects/graph/GraphEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/graph/GraphAttrs.h.inc"
#include "dialects/graph/GraphInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.h.inc"

namespace zc::graph {
/// The module's program of `phase`; null where it has none.
ProgramOp programOf(mlir::ModuleOp module, Phase phase);
/// The phase's name; another one where the model has a tensor of that name.
std::string freeProgramName(mlir::ModuleOp module, Phase phase);
} // namespace zc::graph
