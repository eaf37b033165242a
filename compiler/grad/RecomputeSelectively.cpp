//===- RecomputeSelectively.cpp - recompute what costs least per byte -----------------===//
//
// A *root* is a value of the forward that the backward reads. Instead of keeping it, its *cone* can be computed again
// just before the backward first needs it: the operations from roots that are kept to this one. What is saved counts
// only where most bytes live, so the bytes that live at each position of the program are kept up to date, and each
// choice is made for the highest of them. Chains cannot grow without bound: a cone that would bring as many bytes to
// life early in the backward as it saves raises another position to the peak, and is refused.
//
//===----------------------------------------------------------------------===//

#include "compiler/grad/LiveBytes.h"
#include "compiler/grad/Recompute.h"
#include "compiler/grad/StabbingRank.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace zc;

namespace {

/// Operations that take as long as moving one byte, on the machines of the cost model: cheap operations cost their
/// bytes.
constexpr double kFlopsPerByteMoved = 8;
/// What a byte may cost without a goal: a few elementwise operations, or the scores of attention at usual head sizes.
constexpr double kCheap = 128;
/// Longer cones are not looked at.
constexpr size_t kLargestCone = 256;
/// A clone of what is no root serves others this many operations on; further, another clone is cheaper than its bytes.
constexpr size_t kReach = 128;

struct Root {
  Value value;
  int64_t bytes = 0;
  size_t lastForward = 0; ///< position of its last use in the forward
  size_t last = 0;        ///< of its last use
  size_t needed = 0;      ///< of its first use in the backward, by clones too
  bool dropped = false;
};

/// What making a root again takes.
struct Cone {
  double cost = 0;                              ///< floating-point operations, or their worth
  int64_t temporaries = 0;                      ///< bytes of what is computed on the way
  llvm::SmallSetVector<size_t, 4> kept, pulled; ///< roots it reads; dropped roots that must be made earlier for it
  bool possible = true;
};

class SelectiveRecompute {
public:
  explicit SelectiveRecompute(graph::ProgramOp program) : block(program.getBlock()) {
    for (Operation &op : block) {
      positions[&op] = operations.size();
      operations.push_back(&op);
      if (auto assign = dyn_cast<graph::AssignOp>(op))
        assigned.insert(assign.getParameterAttr());
    }
    Operation *border = program.getBackward();
    numForward = border ? positions[border] : operations.size();
    findRoots();
  }

  size_t run(int64_t save) {
    int64_t goal = save < 0 ? 0 : live.most() - save;
    while (live.most() > goal)
      if (!dropOne(save < 0 ? kCheap : std::numeric_limits<double>::infinity()))
        break;
    return rewrite();
  }

private:
  static int64_t bytesOf(Value value) { return graph::bytesOf(cast<RankedTensorType>(value.getType())); }
  static bool hasBytes(Operation *op) { return !graph::isFreeToRecompute(op) && !graph::isView(op); }

  /// Is the result computed over an operand that dies, and that no earlier one lies over?
  static bool overwrites(OpResult result, llvm::function_ref<bool(Value)> dies) {
    auto kernel = dyn_cast<graph::KernelOp>(result.getOwner());
    const auto isAlike = [&](Value other) { return other.getType() == result.getType(); };
    const auto before = llvm::count_if(result.getOwner()->getResults().take_front(result.getResultNumber()), isAlike);
    return kernel && llvm::count_if(result.getOwner()->getOpOperands(), [&](OpOperand &operand) {
                       return kernel.mayOverwrite(operand.getOperandNumber(), result.getResultNumber()) &&
                              dies(operand.get());
                     }) > before;
  }

  /// Operands count whole, also where little is picked of them: a slice that is made again would be copied, where that
  /// of what is kept becomes a view (fold-views).
  static double costOf(Operation *op) {
    auto kernel = dyn_cast<graph::KernelOp>(op);
    return kernel ? std::max(kernel.getFlops(), kFlopsPerByteMoved * graph::defaultBytes(op)) : 0;
  }

  void findRoots() {
    struct Uses {
      size_t lastForward = 0, last = 0, firstBackward = SIZE_MAX;
    };
    llvm::DenseMap<Value, Uses> uses;
    for (auto [position, op] : llvm::enumerate(operations)) {
      if (graph::isView(op))
        continue;
      for (Value operand : op->getOperands()) {
        Uses &use = uses[graph::viewedValue(operand)];
        use.last = position;
        if (position < numForward)
          use.lastForward = position;
        else
          use.firstBackward = std::min(use.firstBackward, position);
      }
    }
    live = LiveBytes(operations.size() + 1);
    Operation *exit = block.getTerminator();
    for (auto [position, op] : llvm::enumerate(operations)) {
      if (!hasBytes(op))
        continue;
      for (OpResult result : op->getResults()) {
        Uses use = uses.lookup(result);
        auto diesHere = [&, at = position](Value operand) {
          Value bytes = graph::viewedValue(operand);
          return bytes.getDefiningOp() && hasBytes(bytes.getDefiningOp()) && uses.lookup(bytes).last == at;
        };
        bool inPlace = overwrites(result, diesHere);
        live.add(position + inPlace, std::max(use.last, position) + 1, bytesOf(result));
        if (position >= numForward || use.firstBackward == SIZE_MAX || llvm::is_contained(exit->getOperands(), result))
          continue;
        rootOf[result] = roots.size();
        roots.push_back(
            {result, bytesOf(result), std::max(use.lastForward, position), use.last, use.firstBackward, false});
      }
    }
    ranking = StabbingRank(operations.size() + 1, roots.size());
    for (size_t index = 0; index < roots.size(); ++index)
      if (Cone cone = coneOf(index); cone.possible)
        rank(index, costPerByte(index, cone));
  }

  /// A root is worth dropping where it takes bytes for nothing but a later use.
  void rank(size_t index, double cost) { ranking.set(index, cost, roots[index].lastForward + 1, roots[index].needed); }

  double costPerByte(size_t index, const Cone &cone) const {
    return cone.cost / static_cast<double>(std::max<int64_t>(1, roots[index].bytes));
  }

  //===-- cones ---------------------------------------------------------------===//

  Cone coneOf(size_t index) {
    Cone cone;
    size_t needed = roots[index].needed;
    // Operations, and whether they are computed again anyway.
    SmallVector<std::pair<Operation *, bool>> work{{roots[index].value.getDefiningOp(), false}};
    llvm::SmallPtrSet<Operation *, 16> seen;
    while (!work.empty() && cone.possible) {
      auto [op, paid] = work.pop_back_val();
      if (!seen.insert(op).second)
        continue;
      cone.possible = seen.size() <= kLargestCone;
      cone.cost += paid ? 0 : costOf(op);
      if (hasBytes(op))
        for (Value result : op->getResults())
          cone.temporaries += rootOf.contains(result) ? 0 : bytesOf(result);
      for (Value operand : op->getOperands()) {
        Value value = graph::viewedValue(operand);
        Operation *maker = value.getDefiningOp();
        if (!maker)
          continue; // an input of the program
        if (auto read = dyn_cast<graph::ReadOp>(maker); read && assigned.contains(read.getParameterAttr()))
          cone.possible = false; // the forward has changed it
        auto found = rootOf.find(value);
        bool isDropped = found != rootOf.end() && roots[found->second].dropped;
        if (graph::isFreeToRecompute(maker) || (isDropped && roots[found->second].needed <= needed))
          continue; // there by then
        if (found != rootOf.end())
          (isDropped ? cone.pulled : cone.kept).insert(found->second);
        if (found == rootOf.end() || isDropped)
          work.push_back({maker, isDropped});
      }
    }
    return cone;
  }

  //===-- choices -------------------------------------------------------------===//

  /// Drops the cheapest root that lives at the peak, of those below `limit` per byte; false if there is none.
  bool dropOne(double limit) {
    const int64_t peak = live.most();
    const size_t position = live.firstOf(peak);
    while (std::optional<StabbingRank::Entry> cheapest = ranking.lowestAt(position)) {
      if (cheapest->cost > limit)
        return false;
      const size_t index = cheapest->item;
      ranking.erase(index);
      Cone cone = coneOf(index);
      if (!cone.possible)
        continue;
      if (double cost = costPerByte(index, cone); cost > cheapest->cost) // dearer since something below it was dropped
        rank(index, cost);
      else if (drop(index, cone, peak))
        return true;
    }
    return false;
  }

  /// False, and nothing is changed, where as many bytes as now live at the peak would live elsewhere.
  bool drop(size_t index, const Cone &cone, int64_t peak) {
    Root &root = roots[index];
    size_t at = root.needed;
    struct Range {
      size_t begin, end;
      int64_t bytes;
    };
    SmallVector<Range> ranges{{at, at + 1, cone.temporaries}};
    for (size_t kept : cone.kept)
      if (roots[kept].last < at)
        ranges.push_back({roots[kept].last + 1, at + 1, roots[kept].bytes});
    for (size_t pulled : cone.pulled)
      ranges.push_back({at, roots[pulled].needed, roots[pulled].bytes});
    for (const Range &range : ranges)
      live.add(range.begin, range.end, range.bytes);
    live.add(root.lastForward + 1, at, -root.bytes);
    bool lower = llvm::all_of(ranges, [&](const Range &range) {
      return range.begin >= range.end || live.most(range.begin, range.end) < peak;
    });
    if (!lower) {
      for (const Range &range : ranges)
        live.add(range.begin, range.end, -range.bytes);
      live.add(root.lastForward + 1, at, root.bytes);
      return false;
    }
    root.dropped = true;
    for (const auto *others : {&cone.kept, &cone.pulled})
      for (size_t other : *others) {
        roots[other].last = std::max(roots[other].last, at);
        if (at >= roots[other].needed)
          continue;
        roots[other].needed = at;
        ranking.end(other, at);
      }
    return true;
  }

  //===-- clones --------------------------------------------------------------===//

  size_t rewrite() {
    SmallVector<size_t> dropped;
    for (auto [index, root] : llvm::enumerate(roots))
      if (root.dropped)
        dropped.push_back(index);
    llvm::stable_sort(dropped, [&](size_t a, size_t b) { return roots[a].needed < roots[b].needed; });
    OpBuilder builder(block.getParent());
    for (size_t index : dropped) {
      builder.setInsertionPoint(operations[roots[index].needed]);
      again(builder, roots[index].value, roots[index].needed);
    }
    for (size_t position = numForward; position < operations.size(); ++position)
      if (Operation *op = operations[position]; !graph::isView(op)) {
        builder.setInsertionPoint(op);
        for (OpOperand &operand : op->getOpOperands())
          if (auto root = rootOf.find(graph::viewedValue(operand.get()));
              root != rootOf.end() && roots[root->second].dropped)
            operand.set(again(builder, operand.get(), position));
      }
    // Views of what is no longer kept would keep it.
    for (size_t position = operations.size(); position-- > numForward;)
      if (Operation *op = operations[position]; graph::isView(op) && op->use_empty())
        op->erase();
    return numClones;
  }

  /// `value` as the backward reads it at `position`: kept, a clone made before, or a new one at `builder`.
  Value again(OpBuilder &builder, Value value, size_t position) {
    Operation *maker = value.getDefiningOp();
    auto root = rootOf.find(value);
    bool isDropped = root != rootOf.end() && roots[root->second].dropped;
    if (!maker || (root != rootOf.end() && !isDropped))
      return value;
    auto number = cast<OpResult>(value).getResultNumber();
    if (auto known = clones.find(maker);
        known != clones.end() && (isDropped || position - known->second.second <= kReach))
      return known->second.first->getResult(number);
    SmallVector<Value> operands;
    for (Value operand : maker->getOperands())
      operands.push_back(again(builder, operand, position));
    if (graph::isView(maker) && operands == SmallVector<Value>(maker->getOperands()))
      return value; // of what is kept
    Operation *clone = builder.clone(*maker);
    clone->setOperands(operands);
    if (!graph::isView(maker)) {
      clones[maker] = {clone, position};
      numClones += !graph::isFreeToRecompute(maker);
    }
    return clone->getResult(number);
  }

  Block &block;
  std::vector<Operation *> operations;
  llvm::DenseMap<Operation *, size_t> positions;
  llvm::DenseSet<Attribute> assigned; ///< buffers that the program changes
  size_t numForward = 0;
  std::vector<Root> roots;
  llvm::DenseMap<Value, size_t> rootOf;
  LiveBytes live;
  StabbingRank ranking; ///< cost per byte of roots that are not looked at for good
  llvm::DenseMap<Operation *, std::pair<Operation *, size_t>> clones; ///< and the positions they were made for
  size_t numClones = 0;
};

} // namespace

size_t zc::recomputeSelectively(graph::ProgramOp program, int64_t save) {
  return SelectiveRecompute(program).run(save);
}
