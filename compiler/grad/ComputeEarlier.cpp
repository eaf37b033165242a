//===- ComputeEarlier.cpp - element-wise operations right behind others that make their operands ---===//
//
// A derivative stands where its operation was undone: silu's of a gated layer behind the products that the other
// factor's gradient needs, while both of its operands wait, of which an element-wise operation made one. Where what
// dies with it is as large as its result it is computed as soon as it can be, with that operation and others that read
// the same.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/FusionFacts.h"
#include "dialects/graph/ElementType.h"
#include "dialects/graph/Infer.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

namespace {

class Mover {
public:
  Mover(ProgramOp program, FusionTable &table) : backward(program.getBackward()), table(table) {}

  bool run() {
    for (size_t at = 1; at < table.size(); ++at)
      if (Operation *behind = table[at].instruction ? placeFor(at) : nullptr) {
        const size_t place = placeOf(behind).first;
        Operation *&last = lastAt.try_emplace(place, behind).first->second;
        table[at].op->moveAfter(last);
        last = table[at].op;
        moved[last] = {place, moved.size() + 1};
      }
    return !moved.empty();
  }

private:
  /// Where an operation stands now: a place of the table, and how many were moved before it was; those that were moved
  /// to a place follow each other behind what stood there. The block's own order would be made anew after each move.
  using Place = std::pair<size_t, size_t>;
  Place placeOf(Operation *op) const {
    auto found = moved.find(op);
    return found == moved.end() ? Place(table.placeOf(op), 0) : found->second;
  }

  /// What the operation could stand behind; null where it stands well.
  Operation *placeFor(size_t at) {
    Operation *op = table[at].op;
    if (op->getPrevNode() == op->getOperand(0).getDefiningOp())
      return nullptr;
    Operation *last = table[at].isBehind ? backward : nullptr;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp(); maker && (!last || placeOf(last) < placeOf(maker)))
        last = maker;
    const bool isChain = last && table.of(last).instruction;
    return isChain && isApart(placeOf(last).first, at) && keepsNoMore(at) ? last : nullptr;
  }

  /// Does anything stand between two places that would not be fused with what stands there?
  bool isApart(size_t first, size_t second) {
    constexpr int kMost = 64; // a program has fewer instructions
    size_t between = table.inMemoryFrom(first + 1);
    for (int i = 0; i < kMost && between < second && table[between].instruction; ++i)
      between = table.inMemoryFrom(between + 1);
    return between < second;
  }

  /// Is the result no larger than the operands that nobody needs afterwards?
  bool keepsNoMore(size_t at) {
    Operation *op = table[at].op;
    int64_t more = bytesOf(tensorOf(op->getResult(0)));
    llvm::SmallPtrSet<Value, 4> seen;
    for (Value operand : op->getOperands()) {
      Value viewed = viewedValue(operand);
      if (viewed.getDefiningOp() && !isa<ReadOp>(viewed.getDefiningOp()) && !immediateOf(operand) &&
          table.lastUseOf(viewed) == at && seen.insert(viewed).second)
        more -= bytesOf(tensorOf(viewed));
    }
    return more <= 0;
  }

  Operation *backward;
  FusionTable &table;
  llvm::DenseMap<Operation *, Place> moved;
  llvm::DenseMap<size_t, Operation *> lastAt; ///< of a place that operations were moved to
};

} // namespace

bool computeEarlier(ProgramOp program, FusionTable &table) { return Mover(program, table).run(); }

} // namespace zc
