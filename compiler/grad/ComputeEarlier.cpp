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
        table[at].op->moveAfter(behind);
        moved[table[at].op] = placeOf(behind);
      }
    return !moved.empty();
  }

private:
  /// Of an operation that was moved, where it stands now.
  size_t placeOf(Operation *op) const {
    auto found = moved.find(op);
    return found == moved.end() ? table.placeOf(op) : found->second;
  }

  /// The block's own order is made anew after each move.
  bool isBefore(Operation *a, Operation *b) const {
    const size_t first = placeOf(a), second = placeOf(b);
    return first != second ? first < second : a->isBeforeInBlock(b);
  }

  /// What the operation could stand behind; null where it stands well.
  Operation *placeFor(size_t at) {
    Operation *op = table[at].op;
    if (op->getPrevNode() == op->getOperand(0).getDefiningOp())
      return nullptr;
    Operation *last = table[at].isBehind ? backward : nullptr;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp(); maker && (!last || isBefore(last, maker)))
        last = maker;
    const bool isChain = last && table.of(last).instruction;
    return isChain && isApart(placeOf(last), at) && keepsNoMore(at) ? last : nullptr;
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
  llvm::DenseMap<Operation *, size_t> moved;
};

} // namespace

bool computeEarlier(ProgramOp program, FusionTable &table) { return Mover(program, table).run(); }

} // namespace zc
