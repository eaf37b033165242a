//===- FoldViews.cpp - operations read and write inside of larger tensors ------------------===//
//
// A linear layer makes queries, keys and values of all heads in one matrix; attention wants them head by head. Kernels
// that pack what they read into blocks of their own anyway take it from where it is: copies that slice, transpose and
// concatenate rename memory only, and are left out. As in XLA, where transposes and slices become layouts and offsets
// of operands, but decided here, before memory is planned.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/View.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FOLDVIEWS
#include "compiler/grad/Passes.h.inc"

namespace {

std::vector<int64_t> shapeIn(Value value) { return shapeOf(value).vec(); }

/// Does it copy what a view shows as well?
bool isCopy(Operation *op) { return isa_and_nonnull<SliceOp, TransposeOp>(op); }
/// Or show it under another shape?
bool isRename(Operation *op) { return isCopy(op) || isa_and_nonnull<ReshapeOp>(op); }

/// One that can be given views, and has none.
Strided asStrided(Operation *op) {
  auto strided = dyn_cast<Strided>(op);
  return strided && !strided.getViewsAttr() ? strided : Strided();
}

/// The view of `op`'s operand as that of its result.
std::optional<StridedView> through(Operation *op, const StridedView &view) {
  if (auto slice = dyn_cast<SliceOp>(op))
    return view.sliced(slice.getOffsets().vec(), slice.getSizes().vec(), slice.getStrides().vec());
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return view.transposed(transpose.getPermutation().vec());
  return view.reshaped(shapeIn(op->getResult(0)));
}

/// The view of the result of `op`, which has all that its operand has, as that of the operand.
std::optional<StridedView> back(Operation *op, const StridedView &view) {
  auto transpose = dyn_cast<TransposeOp>(op);
  if (!transpose)
    return view.reshaped(shapeIn(op->getOperand(0)));
  std::vector<int64_t> inverse(view.sizes.size());
  for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
    inverse[static_cast<size_t>(from)] = static_cast<int64_t>(i);
  return view.transposed(inverse);
}

/// A view of nothing may begin behind the last element.
bool isEmpty(Value value) { return tensorOf(value).getNumElements() == 0; }

/// The operations that rename `base` to `value`.
SmallVector<Operation *> chainBetween(Value base, Value value) {
  SmallVector<Operation *> ops;
  for (; value != base; value = ops.back()->getOperand(0))
    ops.push_back(value.getDefiningOp());
  std::reverse(ops.begin(), ops.end());
  return ops;
}

std::optional<StridedView> viewAlong(ArrayRef<Operation *> ops, std::optional<StridedView> view) {
  for (Operation *op : ops)
    if (view)
      view = through(op, *view);
  return view;
}

std::optional<StridedView> viewBack(ArrayRef<Operation *> ops, std::optional<StridedView> view) {
  for (Operation *op : llvm::reverse(ops))
    if (view)
      view = back(op, *view);
  return view;
}

//===-- what is read -----------------------------------------------------------===//

/// An operand as a view of another value; `ops` lead from that one to it.
struct Source {
  Value base;
  StridedView view;
  SmallVector<Operation *> ops;
};

/// Which operands are read where they are: decided for all of a program before anything changes.
class Reads {
public:
  explicit Reads(ProgramOp program) {
    for (Operation &op : program.getBody().front())
      if (asStrided(&op))
        for (OpOperand &operand : op.getOpOperands())
          if (!findSources(operand).empty())
            folded.insert(&operand);
    while (dropWhereCopiesStay() || dropWhatIsDear()) {
    }
  }

  /// Nothing where the operand stays as it is.
  std::optional<Source> sourceOf(OpOperand &operand) const {
    if (folded.contains(&operand))
      for (Source &source : findSources(operand))
        if (llvm::all_of(source.ops, [&](Operation *op) { return goes(op); }))
          return source;
    return std::nullopt;
  }
  /// Does nobody need the op's result any longer?
  bool goes(Operation *op) const {
    return isRename(op) &&
           llvm::all_of(op->getUses(), [&](OpOperand &use) { return folded.contains(&use) || goes(use.getOwner()); });
  }

private:
  /// What the operand can be read from, behind one copy or more, the furthest first.
  static SmallVector<Source> findSources(OpOperand &operand) {
    SmallVector<Source> sources;
    if (isEmpty(operand.get()))
      return sources;
    auto strided = cast<Strided>(operand.getOwner());
    for (Value base = operand.get(); isRename(base.getDefiningOp());) {
      Operation *op = base.getDefiningOp();
      base = op->getOperand(0);
      if (!isCopy(op) || isa_and_nonnull<ReadOp>(viewedValue(base).getDefiningOp()))
        continue;
      SmallVector<Operation *> ops = chainBetween(base, operand.get());
      auto view = viewAlong(ops, StridedView::whole(0, shapeIn(base)));
      if (view && strided.takesView(operand.getOperandNumber(), *view))
        sources.push_back({base, *view, ops});
    }
    std::reverse(sources.begin(), sources.end());
    return sources;
  }

  /// A copy that somebody else reads is there for all.
  bool dropWhereCopiesStay() {
    return dropIf([&](OpOperand *operand) { return !sourceOf(*operand); });
  }

  /// What is read in the copies' stead is to be no larger than they are together.
  bool dropWhatIsDear() {
    llvm::MapVector<Value, llvm::SmallSetVector<Value, 4>> copies;
    for (OpOperand *operand : folded)
      copies[viewedValue(sourceOf(*operand)->base)].insert(operand->get());
    return dropIf([&](OpOperand *operand) {
      Value base = viewedValue(sourceOf(*operand)->base);
      int64_t elements = 0;
      for (Value copy : copies[base])
        elements += tensorOf(copy).getNumElements();
      return elements < tensorOf(base).getNumElements();
    });
  }

  template <typename Fn> bool dropIf(Fn isDropped) {
    SmallVector<OpOperand *> dropped;
    llvm::copy_if(folded, std::back_inserter(dropped), isDropped);
    for (OpOperand *operand : dropped)
      folded.remove(operand);
    return !dropped.empty();
  }

  llvm::SetVector<OpOperand *> folded;
};

//===-- what is written --------------------------------------------------------===//

/// Operations that rename values alike, the first of the block in front: the others' results are its result.
using Alike = SmallVector<Operation *, 2>;

/// Where a result is to be: it is `view` of `whole`, which the operation makes in its stead, and which `renames` lead
/// to.
struct Place {
  Value whole;
  StridedView view;
  SmallVector<Alike, 2> renames = {};
};

/// The places of an operation's results that others rename, one by one or joined by a concat.
class Writes {
public:
  Writes(Strided op, const Reads &reads) : op(op), reads(reads) {
    for (OpResult result : op->getResults())
      if (auto place = findPlace(result))
        places[result] = *place;
    llvm::SmallSetVector<Operation *, 2> concats;
    for (OpResult result : op->getResults()) {
      auto *place = places.find(result);
      Value whole = place == places.end() ? Value(result) : place->second.whole;
      if (whole.hasOneUse() && isa<ConcatOp>(*whole.user_begin()))
        concats.insert(*whole.user_begin());
    }
    for (Operation *concat : concats)
      join(cast<ConcatOp>(concat));
  }

  llvm::SmallMapVector<OpResult, Place, 4> places;

private:
  /// What renames all of `values`, which are alike (recomputation repeats renames); nothing if somebody else reads one.
  /// Who can see a result through a view may read that besides.
  Alike renamesOf(ArrayRef<Value> values, bool isResult) const {
    Alike renames;
    for (Value value : values)
      for (Operation *user : value.getUsers()) {
        if (isResult && asStrided(user))
          continue;
        if (!isa<TransposeOp, ReshapeOp>(user) || reads.goes(user))
          return {};
        renames.push_back(user);
      }
    auto isAlike = [&](Operation *user) {
      return user->getName() == renames[0]->getName() && user->getAttrDictionary() == renames[0]->getAttrDictionary();
    };
    if (!llvm::all_of(renames, isAlike))
      return {};
    llvm::sort(renames, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return renames;
  }

  std::optional<Place> findPlace(OpResult result) const {
    if (isEmpty(result))
      return std::nullopt;
    SmallVector<Alike, 2> renames;
    SmallVector<Operation *> ops;
    SmallVector<Value> values = {result};
    for (Alike next = renamesOf(values, true); !next.empty(); next = renamesOf(values, false)) {
      values.clear();
      for (Operation *op : next)
        values.push_back(op->getResult(0));
      ops.push_back(next.front());
      renames.push_back(std::move(next));
    }
    for (; llvm::any_of(ops, isCopy); ops.pop_back(), renames.pop_back()) {
      Value whole = ops.back()->getResult(0);
      if (auto view = viewBack(ops, StridedView::whole(0, shapeIn(whole))); view && isTaken(result, *view))
        return Place{whole, *view, renames};
    }
    return std::nullopt;
  }

  /// By the op, and by those that read the result.
  bool isTaken(OpResult result, const StridedView &view) const {
    return Strided(op).takesView(op->getNumOperands() + result.getResultNumber(), view) &&
           llvm::all_of(result.getUses(), [&](OpOperand &use) {
             Strided reader = asStrided(use.getOwner());
             return !reader || reader.takesView(use.getOperandNumber(), view);
           });
  }

  /// If nothing but results of the op that nobody else reads goes into it.
  void join(ConcatOp concat) {
    llvm::SmallMapVector<OpResult, Place, 4> parts;
    const StridedView all = StridedView::whole(0, shapeIn(concat.getResult()));
    std::vector<int64_t> offsets(all.sizes.size(), 0);
    const std::vector<int64_t> ones(all.sizes.size(), 1);
    for (Value part : concat.getInputs()) {
      auto *found = llvm::find_if(places, [&](auto &entry) { return entry.second.whole == part; });
      auto isAlone = [](const Alike &alike) { return alike.size() == 1; };
      auto result = found == places.end() ? dyn_cast<OpResult>(part) : found->first;
      if (!result || isEmpty(part) || result.getOwner() != op || !part.hasOneUse() || !result.hasOneUse() ||
          (found != places.end() && !llvm::all_of(found->second.renames, isAlone)))
        return;
      auto view = viewBack(chainBetween(result, part), all.sliced(offsets, shapeIn(part), ones));
      if (!view || !isTaken(result, *view))
        return;
      parts[result] = {concat.getResult(), *view};
      const auto axis = static_cast<size_t>(concat.getAxis());
      offsets[axis] += shapeIn(part)[axis];
    }
    for (auto &[result, place] : parts)
      places[result] = place;
  }

  Strided op;
  const Reads &reads;
};

//===-- rewriting --------------------------------------------------------------===//

class ViewFolder {
public:
  explicit ViewFolder(ProgramOp program) : program(program), reads(program) {}

  void run() {
    SmallVector<Operation *> all;
    for (Operation &op : program.getBody().front())
      all.push_back(&op);
    for (Operation *op : all)
      if (Strided strided = asStrided(op))
        fold(strided);
    // Nothing before, since `reads` knows operands by where they are.
    for (Operation *op : llvm::reverse(all))
      if (op->use_empty() && (gone.contains(op) || isRename(op) || isa<ConcatOp>(op)))
        op->erase();
  }
  int64_t numReads = 0, numWrites = 0;

private:
  void fold(Strided op) {
    SmallVector<Value> operands;
    SmallVector<StridedView> views;
    const Writes writes(op, reads);
    bool isFolded = !writes.places.empty();
    for (OpOperand &operand : op->getOpOperands()) {
      Place place = placeOf(operand);
      isFolded |= place.whole != operand.get();
      place.view.tensor = operands.size();
      operands.push_back(place.whole);
      views.push_back(place.view);
    }
    if (!isFolded)
      return;
    for (const auto &[result, place] : writes.places)
      for (const Alike &alike : place.renames)
        for (Operation *other : llvm::drop_begin(alike))
          other->getResult(0).replaceAllUsesWith(alike.front()->getResult(0));
    llvm::SmallSetVector<Value, 4> wholes;
    for (OpResult result : op->getResults()) {
      auto *found = writes.places.find(result);
      const Place place =
          found == writes.places.end() ? Place{result, StridedView::whole(0, shapeIn(result))} : found->second;
      wholes.insert(place.whole);
      views.push_back(place.view);
      views.back().tensor = operands.size() + static_cast<size_t>(llvm::find(wholes, place.whole) - wholes.begin());
    }
    replace(op, operands, views, wholes.getArrayRef());
  }

  Place placeOf(OpOperand &operand) {
    if (auto source = reads.sourceOf(operand)) {
      ++numReads;
      return {source->base, source->view};
    }
    if (auto found = written.find(operand.get()); found != written.end())
      return found->second;
    return {operand.get(), StridedView::whole(0, shapeIn(operand.get()))};
  }

  void replace(Strided op, ArrayRef<Value> operands, ArrayRef<StridedView> views, ArrayRef<Value> wholes) {
    OpBuilder builder(op);
    SmallVector<Type> types(ValueRange(wholes).getTypes());
    NamedAttrList attributes(op->getAttrDictionary());
    attributes.set("views", toViewsAttr(op->getContext(), views, types));
    Operation *made = builder.create(OperationState(op->getLoc(), op->getName(), operands, types, attributes));
    for (OpResult result : op->getResults()) {
      const StridedView &view = views[operands.size() + result.getResultNumber()];
      Value whole = wholes[view.tensor - operands.size()];
      if (whole == result)
        continue;
      ++numWrites;
      written[result] = {made->getResult(static_cast<unsigned>(view.tensor - operands.size())), view};
    }
    for (auto [whole, result] : llvm::zip(wholes, made->getResults()))
      Value(whole).replaceAllUsesWith(result);
    op->dropAllReferences();
    gone.insert(op);
  }

  ProgramOp program;
  Reads reads;
  DenseMap<Value, Place> written;          ///< results that are inside of others now
  llvm::SmallPtrSet<Operation *, 16> gone; ///< replaced
};

struct FoldViews : StagePass<impl::FoldViewsBase<FoldViews>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.views == Views::off)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>()) {
      if (program.getPhase() == Phase::update)
        continue;
      ViewFolder folder(program);
      folder.run();
      reads += folder.numReads;
      writes += folder.numWrites;
    }
  }
};

} // namespace

std::unique_ptr<Pass> createFoldViews(const GradStage &options) { return std::make_unique<FoldViews>(options); }

} // namespace zc
