//===- FuseElementwise.cpp - chains of element-wise operations as one -------------------===//
//
// From the last operation to the first: each that no group has taken yet is the root of one.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/FusedGroup.h"
#include "compiler/grad/Passes.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "compiler/grad/Passes.h.inc"

namespace {

class ElementwiseFuser {
public:
  explicit ElementwiseFuser(ProgramOp program) : table(program) {
    if (computeEarlier(program, table))
      table = FusionTable(program);
  }

  /// Groups and members of them.
  std::pair<unsigned, unsigned> run() {
    std::pair<unsigned, unsigned> counts;
    unsigned number = 0;
    for (size_t at = table.size(); at-- > 0;) {
      Operation *root = table[at].op;
      if (table[at].isGone)
        continue;
      const bool isFusable = table[at].instruction != nullptr;
      if (root->use_empty() && (isFusable || isa<ExpandOp>(root))) { // computed again wherever it was read
        drop(at);
        continue;
      }
      if (!isFusable && !table[at].takesProgram)
        continue;
      FusedGroup group = growGroup(table, at, ++number);
      if (!group.isWorthIt())
        continue;
      replace(group);
      counts.first += 1;
      counts.second += group.members.size();
    }
    for (Operation *op : gone)
      op->erase();
    return counts;
  }

private:
  Fused build(const FusedGroup &group) const {
    SmallVector<size_t> places;
    places.reserve(group.members.size() + group.again.size());
    for (size_t at : group.members)
      if (!table[at].takesProgram)
        places.push_back(at);
    for (Operation *op : group.again)
      places.push_back(table.placeOf(op));
    llvm::sort(places, std::less<>()); // without a comparison it is C's qsort
    places.erase(std::unique(places.begin(), places.end()), places.end());
    SmallVector<FusedStep> steps;
    steps.reserve(places.size());
    SmallVector<Value> results;
    if (group.isInto)
      results.push_back(group.root->getOperand(0));
    for (size_t at : places) {
      Operation *op = table[at].op;
      steps.push_back({op, table[at].instruction});
      if (!group.isInto && group.has(table[at]) && !isa<ExpandOp>(op) && group.returns(op, table))
        results.push_back(op->getResult(0));
    }
    return buildFused(steps, results);
  }

  /// The operation that computes a group, at its root's place.
  Operation *make(const FusedGroup &group, const Fused &fused) const {
    OpBuilder builder(group.root);
    auto program = builder.getDenseI64ArrayAttr(encode(fused.program));
    if (!group.isInto) {
      SmallVector<size_t> sorted(group.members);
      llvm::sort(sorted, std::less<>());
      SmallVector<Location> nodes;
      nodes.reserve(sorted.size());
      for (size_t at : sorted)
        nodes.push_back(table[at].op->getLoc());
      return builder.create<FusedOp>(builder.getFusedLoc(nodes), ValueRange(fused.results).getTypes(), fused.inputs,
                                     program, ViewsAttr());
    }
    SmallVector<Value> operands(fused.inputs);
    llvm::append_range(operands, group.root->getOperands().drop_front());
    auto into = builder.create<FusedIntoOp>(group.root->getLoc(), group.root->getResultTypes(), operands,
                                            builder.getStringAttr(cast<KernelOp>(group.root).getKernelName()), program);
    for (NamedAttribute attribute : group.root->getAttrs())
      into->setAttr(attribute.getName(), attribute.getValue());
    return into;
  }

  void replace(const FusedGroup &group) {
    const Fused fused = build(group);
    Operation *made = make(group, fused);
    table.put(made, group.place);
    for (Value input : fused.inputs) {
      size_t &last = table.lastUseOf(viewedValue(input));
      last = std::max(last, group.place);
    }
    SmallVector<Value> old(fused.results);
    if (group.isInto)
      old.assign(group.root->result_begin(), group.root->result_end());
    for (auto [before, result] : llvm::zip(old, made->getResults())) {
      const size_t last = table.lastUseOf(before);
      table.lastUseOf(result) = last;
      before.replaceAllUsesWith(result);
    }
    for (size_t at : group.members)
      drop(at);
  }

  void drop(size_t at) {
    table.drop(at);
    gone.push_back(table[at].op);
  }

  FusionTable table;
  std::vector<Operation *> gone; ///< fused
};

struct FuseElementwise : StagePass<impl::FuseElementwiseBase<FuseElementwise>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse != Fuse::on)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getPhase() != Phase::update) {
        auto [made, members] = ElementwiseFuser(program).run();
        groups += made;
        fused += members;
      }
  }
};

} // namespace

std::unique_ptr<Pass> createFuseElementwise(const GradStage &options) {
  return std::make_unique<FuseElementwise>(options);
}

} // namespace zc
