//===- Rewrite.cpp - patterns and folding over programs of one block ------------------------===//
#include "dialects/graph/Rewrite.h"
#include "dialects/graph/Graph.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FoldInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Rewrite/PatternApplicator.h"
#include "mlir/Transforms/FoldUtils.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace zc::graph {
namespace {

/// Rewrites one block. What a sweep has yet to come to stands at `next` and before it; what was touched behind it waits
/// in `again`, the last first.
class BlockRewriter : public RewriterBase::Listener {
public:
  BlockRewriter(MLIRContext *context, Block &block, const FrozenRewritePatternSet &patterns)
      : block(block), patterns(patterns), matcher(patterns), rewriter(context) {
    matcher.applyDefaultCostModel();
  }

  /// Whether anything was changed.
  bool sweep() {
    gatherConstants();
    number();
    rewriter.setListener(this);
    bool isChanged = false;
    next = block.empty() ? nullptr : &block.back();
    while (Operation *op = pop())
      isChanged |= rewrite(op);
    rewriter.setListener(nullptr);
    return isChanged;
  }

private:
  //===-- what is known of operations by their name ----------------------------===//
  struct Kind {
    bool isConstant = false, hasPatterns = false, isFoldedByDialect = false;
  };
  /// Mostly of the name that was asked for last.
  Kind kindOf(Operation *op) {
    if (op->getName().getAsOpaquePointer() == lastName)
      return lastKind;
    auto [entry, isNew] = kinds.try_emplace(op->getName());
    if (isNew) {
      entry->second.isConstant = op->hasTrait<OpTrait::ConstantLike>();
      entry->second.hasPatterns = patterns.getOpSpecificNativePatterns().contains(op->getName()) ||
                                  !patterns.getMatchAnyOpNativePatterns().empty();
      entry->second.isFoldedByDialect = isa_and_nonnull<DialectFoldInterface>(op->getDialect());
    }
    lastName = op->getName().getAsOpaquePointer();
    return lastKind = entry->second;
  }

  /// To the front, each once.
  void gatherConstants() {
    OperationFolder folder(rewriter.getContext());
    for (Operation &op : llvm::make_early_inc_range(block)) {
      mlir::Attribute value;
      if (kindOf(&op).isConstant && matchPattern(&op, m_Constant(&value)))
        folder.insertKnownConstant(&op, value);
    }
  }

  //===-- one operation ---------------------------------------------------------===//
  bool rewrite(Operation *op) {
    if (op->use_empty() && isOpTriviallyDead(op))
      return rewriter.eraseOp(op), true;
    const Kind kind = kindOf(op);
    if (!kind.isConstant && fold(op, kind))
      return true;
    return kind.hasPatterns && succeeded(matcher.matchAndRewrite(op, rewriter));
  }

  bool fold(Operation *op, Kind kind) {
    auto isConstant = [&](Value operand) {
      Operation *maker = operand.getDefiningOp();
      return maker && kindOf(maker).isConstant;
    };
    SmallVector<OpFoldResult, 2> results;
    // Operation::fold looks closely at each operand for a constant.
    const bool isFolded =
        llvm::any_of(op->getOperands(), isConstant) || kind.isFoldedByDialect
            ? succeeded(op->fold(results))
            : succeeded(op->getName().foldHook(op, SmallVector<mlir::Attribute, 4>(op->getNumOperands()), results));
    if (!isFolded)
      return false;
    if (results.empty()) { // changed where it stands
      notifyOperationModified(op);
      return true;
    }
    SmallVector<Value, 2> values;
    rewriter.setInsertionPoint(op);
    for (auto [result, type] : llvm::zip_equal(results, op->getResultTypes())) {
      auto value = dyn_cast<Value>(result);
      Operation *constant =
          value ? nullptr
                : op->getDialect()->materializeConstant(rewriter, cast<mlir::Attribute>(result), type, op->getLoc());
      if (!value && !constant)
        return false; // those made before are dead, and waiting
      values.push_back(value ? value : constant->getResult(0));
    }
    rewriter.replaceOp(op, values);
    return true;
  }

  //===-- what is to be looked at ------------------------------------------------===//
  void number() {
    numbers.clear();
    numbers.reserve(block.getOperations().size());
    for (Operation &op : block)
      numbers.try_emplace(&op, numbers.size());
    numberToCome = numbers.size();
  }

  Operation *pop() {
    while (!again.empty())
      if (Operation *op = again.pop_back_val()) {
        placeOf.erase(op);
        return op;
      }
    Operation *op = next;
    if (op) {
      next = op->getPrevNode();
      if (auto found = numbers.find(op); found != numbers.end())
        numberToCome = found->second;
    }
    return op;
  }

  /// What was inserted counts as behind, wherever it is. By own numbers: a block that much is inserted into numbers its
  /// operations again and again when it is asked.
  bool isToCome(Operation *op) const {
    auto found = numbers.find(op);
    return found != numbers.end() && found->second < numberToCome;
  }

  void push(Operation *op) {
    if (op->getBlock() == &block && !isToCome(op) && placeOf.try_emplace(op, again.size()).second)
      again.push_back(op);
  }

  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    numbers.erase(op); // of one that was moved, or stood where this one does
    push(op);
  }
  void notifyOperationModified(Operation *op) override { push(op); }
  void notifyOperationErased(Operation *op) override {
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp(); maker && isReadByTwo(operand))
        push(maker);
    if (op == next)
      next = op->getPrevNode();
    numbers.erase(op);
    if (auto found = placeOf.find(op); found != placeOf.end()) {
      again[found->second] = nullptr;
      placeOf.erase(found);
    }
  }
  /// By two operations at most: without one of them its maker may be dead, or the only user's own.
  static bool isReadByTwo(Value value) {
    SmallPtrSet<Operation *, 4> users;
    for (Operation *user : value.getUsers())
      if (users.insert(user).second && users.size() > 2)
        return false;
    return true;
  }

  Block &block;
  const FrozenRewritePatternSet &patterns;
  PatternApplicator matcher;
  PatternRewriter rewriter;
  Operation *next = nullptr;
  DenseMap<Operation *, size_t> numbers; ///< in the block, of those that stand where they did when the sweep began
  size_t numberToCome = 0;               ///< below it they are yet to come
  SmallVector<Operation *> again;        ///< null: erased
  DenseMap<Operation *, size_t> placeOf; ///< in `again`
  llvm::SmallDenseMap<OperationName, Kind, 64> kinds;
  const void *lastName = nullptr;
  Kind lastKind;
};

} // namespace

LogicalResult rewriteGreedily(ModuleOp module, const FrozenRewritePatternSet &patterns, unsigned maxSweeps) {
  for (auto program : module.getOps<ProgramOp>()) {
    BlockRewriter rewriter(module.getContext(), program.getBlock(), patterns);
    unsigned sweeps = 0;
    while (rewriter.sweep())
      if (++sweeps == maxSweeps)
        return failure();
  }
  return success();
}

void canonicalize(ModuleOp module) {
  MLIRContext *context = module.getContext();
  RewritePatternSet patterns(context);
  for (Dialect *dialect : context->getLoadedDialects())
    dialect->getCanonicalizationPatterns(patterns);
  for (RegisteredOperationName name : context->getRegisteredOperations())
    name.getCanonicalizationPatterns(patterns, context);
  (void)rewriteGreedily(module, std::move(patterns), /*maxSweeps=*/10);
}

} // namespace zc::graph
