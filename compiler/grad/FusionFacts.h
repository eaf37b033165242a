//===- FusionFacts.h - what fusing asks of operations -------------------------------------------===//
//
// Found once for each operation of a program and kept by its place, which stays what it was when operations go.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/grad/BuildFused.h"
#include "dialects/graph/OpNumbers.h"

#include <deque>
#include <vector>

namespace zc {

struct FusionFacts {
  mlir::Operation *op = nullptr;
  const FusedInstruction *instruction = nullptr; ///< null: it has no place in programs
  size_t firstUser = 0;                          ///< in the block; 0: none
  size_t lastUse = 0;                            ///< of the one result and views of it
  size_t nextInMemory = 0; ///< where the search for what takes memory goes on; its own place if it does
  unsigned group = 0;      ///< the last one that it is a member of
  bool isBehind = false;   ///< the border to the backward
  bool isGone = false;     ///< fused
  bool isView = false;
  bool takesProgram = false;
};

class FusionTable {
public:
  explicit FusionTable(graph::ProgramOp program);

  size_t size() const { return facts.size(); }
  FusionFacts &operator[](size_t place) { return facts[place]; }
  const FusionFacts &operator[](size_t place) const { return facts[place]; }
  /// Also of what was put into an operation's place.
  size_t placeOf(mlir::Operation *op) const { return places.lookup(op); }
  FusionFacts &of(mlir::Operation *op) { return facts[placeOf(op)]; }
  const FusionFacts &of(mlir::Operation *op) const { return facts[placeOf(op)]; }
  /// Of what makes it; null for an argument of the program.
  FusionFacts *makerOf(mlir::Value value) {
    mlir::Operation *maker = value.getDefiningOp();
    return maker ? &of(maker) : nullptr;
  }
  /// Where a value that is no view, or a view of it, is used last.
  size_t &lastUseOf(mlir::Value value);
  size_t lastUseOf(mlir::Value value) const;
  /// The first place from `at` on whose operation takes memory and is not fused yet.
  size_t inMemoryFrom(size_t at);
  /// Is a parameter that `op` reads assigned between it and `place`?
  bool readsWhatChanges(mlir::Operation *op, size_t place) const;

  /// `op` stands at `place` now.
  void put(mlir::Operation *op, size_t place) { places.set(op, place); }
  /// What stands at `place` is fused; the caller erases it, at the end.
  void drop(size_t place);

private:
  /// What is known of operations by their name, and the last one of them: mostly the next is like it.
  struct Kind {
    bool takesProgram = false, isFree = false;
    mlir::Operation *last = nullptr;
    const FusedInstruction *instruction = nullptr; ///< of the last one
  };
  Kind &kindOf(mlir::Operation *op);
  /// As findInstruction; null for nothing.
  const FusedInstruction *instructionOf(mlir::Operation *op, Kind &kind);
  void note(mlir::Operation &op, size_t at, bool isBehind);

  llvm::SmallDenseMap<mlir::OperationName, Kind> kinds;
  std::deque<FusedInstruction> instructions; ///< of operations, those that differ
  std::vector<FusionFacts> facts;
  graph::OpNumbers places;
  llvm::DenseMap<mlir::Value, size_t> otherLastUse;                      ///< of values that no facts are of
  llvm::DenseMap<mlir::Attribute, llvm::SmallVector<size_t, 1>> assigns; ///< of parameters, in order
};

/// Moves element-wise operations up to those that make their operands, where that keeps no more in memory. Then `table`
/// is out of date, and the result is true.
bool computeEarlier(graph::ProgramOp program, FusionTable &table);

} // namespace zc
