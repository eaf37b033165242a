//===- FusedGroup.h - which operations are fused -----------------------------------------------===//
//
// A group grows from its last operation, at whose place it is computed, towards what made its operands. So nothing that
// depends on a member stands before the group, and the group depends on nothing behind it: it needs no search for
// cycles. What saves memory traffic is fused; what would keep more bytes alive between two operations that take memory
// is not, nor what lies on the two sides of the border to the backward. What stays outside is computed again inside,
// where that takes fewer reads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/grad/FusionFacts.h"
#include "dialects/graph/Infer.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace zc {

/// Members, the root first, and what is known of them as they come: each is looked at once.
struct FusedGroup {
  FusedGroup(const FusionTable &table, size_t place, unsigned number)
      : root(table[place].op), isInto(table[place].takesProgram), place(place), number(number),
        shape(graph::shapeOf(isInto ? root->getOperand(0) : root->getResult(0))) {}
  mlir::Operation *root;
  bool isInto;                                      ///< does the root take programs?
  size_t place;                                     ///< of the root
  unsigned number;                                  ///< by which members are known
  llvm::ArrayRef<int64_t> shape;                    ///< of what the program computes
  llvm::SmallVector<size_t> members;                ///< their places
  llvm::SmallSetVector<mlir::Operation *, 8> again; ///< computed here too, and not taken out of their places
  /// Places of what makes the members' operands and may be in programs, the last first.
  llvm::SmallVector<size_t> makers;
  llvm::SmallSetVector<mlir::Value, kFusedInputs + 1> inputs; ///< made by no member, no immediates
  llvm::SmallPtrSet<mlir::Value, 8> constants;                ///< that they read
  llvm::SmallVector<mlir::Value, kFusedResults + 1> results;
  size_t instructions = 0; ///< registers of what they compute

  size_t registers() const { return inputs.size() + constants.size() + instructions; }
  /// Of a program that a kernel takes, which has the shape that its inputs broadcast to: would `values` be such inputs?
  bool giveShape(llvm::ArrayRef<mlir::Value> values) const;
  /// Does the program, or the root beside it, read `value`?
  bool reads(mlir::Value value) const {
    return inputs.contains(value) || (isInto && llvm::is_contained(root->getOperands().drop_front(), value));
  }
  bool has(const FusionFacts &facts) const { return facts.group == number; }
  /// Is what `op`, a member, makes needed outside of the members' programs?
  bool returns(mlir::Operation *op, const FusionTable &table) const;
  /// Are fewer bytes written and read? Alone, an operation has to lose operands that were written out for it.
  bool isWorthIt() const;
};

/// All that can be computed at `root`, which computes element by element or takes programs. Members know `number`.
FusedGroup growGroup(FusionTable &table, size_t root, unsigned number);

/// Computes inputs of a group instead of reading them, as long as that is less to read.
void computeAgain(const FusionTable &table, FusedGroup &group);

} // namespace zc
