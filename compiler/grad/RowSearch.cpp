//===- RowSearch.cpp - which rows are cut between the regions that the weights' cuts make -------===//

#include "compiler/grad/RowSearch.h"
#include "compiler/grad/CutClass.h"
#include "compiler/grad/WholeValues.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <set>

using namespace mlir;
using namespace zc;
using namespace zc::graph;

namespace {

/// Bytes may grow by that: gradients of norms' scales and biases become sums over the ranks, a vector each.
constexpr double kMost = 1.25;

/// Rows of an inner dimension, which what is exchanged is transposed for, are taken where they save this share of
/// bytes.
constexpr double kInner = 0.1;

double bytesOfValue(Value value) { return double(bytesOf(cast<RankedTensorType>(value.getType()))); }

/// Rows that are cut together.
struct RowClass {
  llvm::MapVector<Operation *, OpCut> operations;
  double before = 0, after = 0;
};

/// What a program that is cut over `ranks` says of its operations.
struct RowContext {
  RowContext(ProgramOp program, int64_t ranks) : cuts(program, ranks), whole(wholeValues(program)) {}

  bool isSum(Operation *op) const {
    auto sum = dyn_cast_or_null<AllReduceOp>(op);
    return sum && !sum.getMax();
  }
  /// Do all ranks compute it alike, and nothing with a weight?
  bool isAlike(Operation *op) const {
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel || taken.contains(op) || op->getNumResults() == 0 || !whole.contains(op->getResult(0)))
      return false;
    for (OpOperand &operand : op->getOpOperands()) {
      OperandRole role = kernel.getOperandRole(operand.getOperandNumber());
      if (!whole.contains(operand.get()) || role == OperandRole::weight || role == OperandRole::picked)
        return false;
    }
    return true;
  }
  bool diverges(Value value) const {
    return llvm::any_of(value.getUsers(), [](Operation *user) { return isa<DivergeOp>(user); });
  }

  CutContext cuts;
  llvm::DenseSet<Value> whole;
  llvm::DenseSet<Operation *> taken; ///< by a class
};

/// Grows one class from a sum.
class RowGrowth {
public:
  explicit RowGrowth(const RowContext &context) : context(context) {}

  /// Nothing, and `why` not, where the sum is not cut so.
  std::optional<RowClass> run(AllReduceOp sum, TensorCut cut, std::string &why) {
    if (!joinAll(sum, sum->getNumOperands(), cut, why))
      return std::nullopt;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      for (OpOperand &use : value.getUses())
        if (!joinAll(use.getOwner(), use.getOperandNumber(), values[value], border))
          gathered.insert(value);
    }
    price();
    return std::move(result);
  }

private:
  /// With all that makes its operands, whether or not it joins itself.
  bool joinAll(Operation *op, unsigned index, TensorCut cut, std::string &reason) {
    const bool isJoined = join(op, index, cut, reason);
    while (!needed.empty()) { // as deep as a program is long
      auto [value, there] = needed.pop_back_val();
      need(value, there);
    }
    return isJoined;
  }

  bool join(Operation *op, unsigned index, TensorCut cut, std::string &reason) {
    if (auto known = result.operations.find(op); known != result.operations.end()) {
      const OpCut &own = known->second;
      unsigned operands = op->getNumOperands();
      const std::optional<TensorCut> &there = index < operands ? own.operands[index] : own.results[index - operands];
      return there && *there == cut;
    }
    if (!(context.isSum(op) && !context.taken.contains(op)) && !context.isAlike(op))
      return false;
    std::optional<OpCut> own = cutAlong(op, index, cut, context.cuts.ranks, reason);
    if (!own || own->reducedBytes > 0 || (!context.isSum(op) && !own->behind.empty()))
      return false;
    result.operations.insert({op, *own});
    for (auto [value, there] : llvm::zip(op->getResults(), own->results))
      if (there && values.insert({value, *there}).second)
        work.push_back(value);
    for (size_t i = op->getNumOperands(); i-- > 0;)
      if (const std::optional<TensorCut> &there = own->operands[i])
        needed.push_back({op->getOperand(static_cast<unsigned>(i)), *there});
    return true;
  }

  /// An operand is computed in parts as well, or each rank takes its part of it.
  void need(Value value, TensorCut cut) {
    Operation *op = value.getDefiningOp();
    bool isMade = op && context.cuts.isActive(value) &&
                  join(op, op->getNumOperands() + cast<OpResult>(value).getResultNumber(), cut, border);
    if (!isMade)
      sliced.insert(value);
  }

  /// As Growth's: a sum over ranks is a reduce-scatter and a gather.
  void price() {
    const double others = double(context.cuts.ranks - 1) / double(context.cuts.ranks);
    llvm::SetVector<Value> vectors;
    for (auto &[op, own] : result.operations) {
      if (context.isSum(op)) {
        result.before += 2 * others * bytesOfValue(op->getResult(0));
        result.after += 2 * others * bytesOfValue(op->getResult(0)); // scattered, and its gradient gathered
        continue;
      }
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        if (!own.operands[i] && context.cuts.isActive(operand))
          vectors.insert(operand);
    }
    for (Value value : vectors)
      result.after += 2 * others * bytesOfValue(value);
    for (Value value : gathered) {
      bool diverges = context.diverges(value) && context.cuts.isActive(value);
      result.before += diverges ? 2 * others * bytesOfValue(value) : 0;
      result.after += (diverges ? 2 : 1) * others * bytesOfValue(value);
    }
    for (Value value : sliced)
      result.after += context.cuts.isActive(value) ? others * bytesOfValue(value) : 0;
  }

  const RowContext &context;
  RowClass result;
  std::string border; ///< why it ends where it does; nobody asks
  DenseMap<Value, TensorCut> values;
  SmallVector<Value> work;
  SmallVector<std::pair<Value, TensorCut>> needed; ///< the first of an operation's operands is the last
  llvm::SetVector<Value> gathered, sliced;         ///< what leaves the class, and what enters it
};

/// Chooses classes, sum after sum.
class RowFinder {
public:
  RowFinder(ProgramOp program, int64_t ranks) : program(program), context(program, ranks), batches({1}) {
    for (BlockArgument input : program.getBlock().getArguments())
      if (auto type = cast<RankedTensorType>(input.getType()); type.getRank() > 0 && type.getDimSize(0) > 1)
        batches.insert(type.getDimSize(0));
  }

  Rows run() {
    for (auto sum : program.getBlock().getOps<AllReduceOp>())
      if (!sum.getMax() && !seen.contains(sum) && cast<RankedTensorType>(sum.getType()).getRank() >= 2)
        tryFrom(sum);
    return std::move(found);
  }

private:
  void tryFrom(AllReduceOp sum) {
    std::optional<RowClass> best;
    std::string why;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(sum.getType()).getShape();
    for (int64_t dim = 0; dim + 1 < int64_t(shape.size()); ++dim)
      for (int64_t groups : batches) {
        std::string reason;
        std::optional<RowClass> grown;
        if (shape[dim] % groups == 0)
          grown = RowGrowth(context).run(sum, {dim, groups}, reason);
        if (grown && grown->after > kMost * grown->before)
          reason = "along dimension " + std::to_string(dim) + " " + std::to_string(int64_t(grown->after)) +
                   " bytes would be sent instead of " + std::to_string(int64_t(grown->before));
        if (!reason.empty() && groups == 1)
          why += (why.empty() ? "" : "; ") + reason;
        if (grown && (!best || grown->after - grown->before < best->after - best->before - kInner * best->before))
          best = std::move(grown);
      }
    if (best) // what was looked at with it is not looked at once more
      for (auto &[op, cut] : best->operations)
        seen.insert(op);
    if (best && best->after <= kMost * best->before)
      return take(*best);
    std::string all = "sum of [" + llvm::join(textsOf(shape), ", ") + "]: " + why;
    if (reasons.insert(all).second)
      found.why += (found.why.empty() ? "" : "; ") + all;
  }

  void take(const RowClass &rows) {
    for (auto &[op, cut] : rows.operations) {
      found.operations.insert({op, cut});
      context.taken.insert(op);
    }
    found.before += rows.before;
    found.after += rows.after;
  }

  static std::vector<std::string> textsOf(ArrayRef<int64_t> shape) {
    std::vector<std::string> texts;
    for (int64_t dim : shape)
      texts.push_back(std::to_string(dim));
    return texts;
  }

  ProgramOp program;
  RowContext context;
  std::set<int64_t> batches; ///< samples of an input: what is [samples x positions] may be cut by positions; and 1
  Rows found;
  llvm::DenseSet<Operation *> seen;
  llvm::StringSet<> reasons;
};

} // namespace

Rows zc::findRows(ProgramOp program, int64_t ranks) { return RowFinder(program, ranks).run(); }
