//===- EliminateCommon.cpp - operations that compute what another one has computed -----------===//
//
// MLIR's pass, for programs of one block: there the scopes and the order of blocks are nothing, and a flat table of
// hashes, which looks at another operation only where the hashes are equal, takes an eighth of the time.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_ELIMINATECOMMON
#include "compiler/grad/Passes.h.inc"

namespace {

class CommonSubexpressions {
public:
  explicit CommonSubexpressions(Block &block)
      : block(block), table(llvm::PowerOf2Ceil(2 * block.getOperations().size() + 1)) {}

  /// How many operations another one stands for.
  unsigned eliminate() {
    unsigned eliminated = 0;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      ++now;
      if (op.getNumRegions() > 0 || (!op.getNextNode() && op.hasTrait<OpTrait::IsTerminator>()))
        continue;
      if (op.use_empty() && isOpTriviallyDead(&op)) {
        op.erase();
        continue;
      }
      const Effects effects = effectsOf(&op);
      if (effects == Effects::others) {
        lastChange = now;
        continue;
      }
      if (effects == Effects::none && isAloneWithAnOperand(&op))
        continue;
      Entry &entry = entryOf(&op);
      if (!entry.op || (effects == Effects::reads && entry.at < lastChange)) {
        entry.op = &op;
        entry.at = now;
        continue;
      }
      if (isa<UnknownLoc>(entry.op->getLoc()))
        entry.op->setLoc(op.getLoc());
      Operation *kept = entry.op;
      const SmallVector<Operation *, 1> alone = aloneWith(kept, &op);
      op.replaceAllUsesWith(kept);
      op.erase();
      llvm::for_each(alone, [&](Operation *user) { enter(user); });
      ++eliminated;
    }
    return eliminated;
  }

private:
  /// What computes the same reads the same: nothing does where this is the only use of an operand. Such operations are
  /// not in the table, and enter it when another use comes.
  static bool isAloneWithAnOperand(Operation *op) {
    return llvm::any_of(op->getOperands(), [](Value operand) { return operand.hasOneUse(); });
  }
  /// Those before `now` that are alone with a result of `op`.
  SmallVector<Operation *, 1> aloneWith(Operation *op, Operation *now) const {
    SmallVector<Operation *, 1> users;
    for (Value result : op->getResults())
      if (result.hasOneUse())
        if (Operation *user = *result.user_begin(); user->getBlock() == &block && user->isBeforeInBlock(now))
          users.push_back(user);
    return users;
  }
  /// Puts an operation into the table that was alone.
  void enter(Operation *op) {
    if (op->getNumRegions() > 0 || effectsOf(op) != Effects::none || isAloneWithAnOperand(op))
      return;
    if (Entry &entry = entryOf(op); !entry.op) {
      entry.op = op;
      entry.at = now;
    }
  }

  /// An operation that stands for those equal to it, and when it was met.
  struct Entry {
    Operation *op = nullptr;
    uint32_t hash = 0, at = 0;
  };

  /// What reads only is common with its like where nothing was changed in between.
  enum class Effects : uint8_t { none, reads, others };
  /// Of one without regions, whose effects are its own.
  static Effects effectsOf(Operation *op) {
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (!effects)
      return op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ? Effects::none : Effects::others;
    if (effects.hasNoEffect())
      return Effects::none;
    return effects.onlyHasEffect<MemoryEffects::Read>() ? Effects::reads : Effects::others;
  }

  /// Of its like, or where it may go.
  Entry &entryOf(Operation *op) {
    llvm::hash_code hash = llvm::hash_combine(op->getName(), op->getRawDictionaryAttrs(), op->hashProperties());
    for (Value operand : op->getOperands())
      hash = llvm::hash_combine(hash, operand.getAsOpaquePointer());
    const auto wide = static_cast<uint64_t>(static_cast<size_t>(hash));
    const auto mark = static_cast<uint32_t>(wide >> 32);
    size_t place = wide & (table.size() - 1);
    for (; table[place].op; place = (place + 1) & (table.size() - 1))
      if (table[place].hash == mark &&
          OperationEquivalence::isEquivalentTo(table[place].op, op, OperationEquivalence::IgnoreLocations))
        return table[place];
    table[place].hash = mark;
    return table[place];
  }

  Block &block;
  std::vector<Entry> table; ///< by hash, at most half full; of a power of two
  uint32_t now = 0, lastChange = 0;
};

struct EliminateCommon : impl::EliminateCommonBase<EliminateCommon> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      eliminated += CommonSubexpressions(program.getBlock()).eliminate();
  }
};

} // namespace
} // namespace zc
