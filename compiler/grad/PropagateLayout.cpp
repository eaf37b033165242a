//===- PropagateLayout.cpp - chains of convolutions compute on channels-last activations -----===//
//
// Libraries' convolutions are fast on layouts in which channels are contiguous (all, or a vector of them). Left in the
// model's order, a convolution rearranges its input and its result within its step, forward and backward; and norms,
// which all but read, write and rearrange memory, have their channels a plane apart. Here whole chains change their
// order once, as in torch's channels_last and TVM's and XLA's layout assignment, but by the shapes alone.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/ComposeTransposes.h"
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"
#include "dialects/graph/Rewrite.h"

#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_PROPAGATELAYOUT
#include "compiler/grad/Passes.h.inc"

namespace {

/// Are the non-unit dimensions in the same order, channels last?
bool keepsOrder(ArrayRef<int64_t> shape) {
  auto isOne = [](int64_t dim) { return dim == 1; };
  return shape.size() < 3 || shape[1] == 1 || llvm::all_of(shape.drop_front(2), isOne);
}

bool isTransposeBy(Operation *op, ArrayRef<int64_t> permutation) {
  auto transpose = dyn_cast_or_null<TransposeOp>(op);
  return transpose && transpose.getPermutation() == permutation;
}
bool bringsToLast(Operation *op) { return isTransposeBy(op, permutationToLast(tensorOf(op->getOperand(0)).getRank())); }

/// A splat constant is made in any order.
ConstantOp splatOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return elements && elements.isSplat() ? constant : ConstantOp();
}

/// Elements that the target's library rearranges where the op has them in the model's order. On GPUs channels are last
/// for tensor cores, which multiply 16-bit numbers, and those of 32 bits that may be rounded.
int64_t rearrangedBy(Layoutable op, const GradStage &stage) {
  Type type = elementOf(op->getResult(0));
  bool onTensorCores = bytesOfElement(type) == 2 || (type.isF32() && stage.matmulPrecision == MatmulPrecision::tf32);
  return stage.target == Target::cpu || onTensorCores ? op.getRearrangedElements() : 0;
}

/// Values that an operation needs in one order, connected over all operations.
class Chains {
public:
  Chains(ProgramOp program, const GradStage &stage) : stage(stage) {
    for (Operation &op : program.getBody().front())
      add(&op);
    classes.compress();
    weigh();
  }

  int64_t numTurned() const {
    return llvm::count_if(weights, [](const Weight &w) { return w.pays(); });
  }
  /// Null where the op stays as it is. Asks for no operand: those change while chains are turned.
  const llvm::SmallBitVector *activationsIfTurned(Operation *op) const {
    auto found = activations.find(op);
    return found != activations.end() && weights[classes[found->second.place]].pays() ? &found->second.tensors
                                                                                      : nullptr;
  }
  bool isTurned(Value value) const {
    auto found = places.find(value);
    return found != places.end() && weights[classes[found->second]].pays();
  }
  /// By an operation of its chain.
  bool isMadeWithin(Value value) const {
    auto result = dyn_cast<OpResult>(value);
    auto found = result ? activations.find(result.getOwner()) : activations.end();
    return found != activations.end() &&
           found->second.tensors.test(result.getOwner()->getNumOperands() + result.getResultNumber());
  }

private:
  /// Of an operation: which of its tensors are activations, operands first; the place of one of them.
  struct Activations {
    llvm::SmallBitVector tensors;
    unsigned place;
  };
  /// Elements rearranged: by the convolutions of a chain that stays, at the borders of one that is turned.
  struct Weight {
    int64_t within = 0, borders = 0;
    bool pays() const { return within > 0 && 2 * borders <= within; }
  };

  static Value tensorAt(Operation *op, unsigned i) {
    return i < op->getNumOperands() ? op->getOperand(i) : op->getResult(i - op->getNumOperands());
  }

  void add(Operation *op) {
    llvm::SmallBitVector tensors = activationsOf(op);
    if (tensors.none())
      return;
    unsigned first = placeOf(tensorAt(op, tensors.find_first()));
    for (unsigned i : tensors.set_bits())
      classes.join(first, placeOf(tensorAt(op, i)));
    activations.try_emplace(op, Activations{std::move(tensors), first});
  }
  unsigned placeOf(Value value) {
    auto [found, isNew] = places.try_emplace(value, unsigned(places.size()));
    if (isNew)
      classes.grow(places.size());
    return found->second;
  }

  void weigh() {
    weights.resize(classes.getNumClasses());
    for (auto &[op, found] : activations)
      if (auto layoutable = dyn_cast<Layoutable>(op))
        weights[classes[found.place]].within += rearrangedBy(layoutable, stage);
    for (auto [value, place] : places) {
      int64_t elements = keepsOrder(shapeOf(value)) ? 0 : tensorOf(value).getNumElements();
      weights[classes[place]].borders += elements * (isBroughtIn(value) + isTakenOut(value));
    }
  }
  bool isBroughtIn(Value value) const {
    return !isMadeWithin(value) && !splatOf(value) &&
           !isTransposeBy(value.getDefiningOp(), permutationToFirst(tensorOf(value).getRank()));
  }
  bool isTakenOut(Value value) const {
    return isMadeWithin(value) && llvm::any_of(value.getUses(), [&](OpOperand &use) {
             auto found = activations.find(use.getOwner());
             bool isWithin = found != activations.end() && found->second.tensors.test(use.getOperandNumber());
             return !isWithin && !bringsToLast(use.getOwner());
           });
  }

  const GradStage &stage;
  DenseMap<Operation *, Activations> activations;
  DenseMap<Value, unsigned> places;
  llvm::IntEqClasses classes;
  SmallVector<Weight> weights; ///< of each class
};

/// Turns the chains that pay: operation by operation, in program order.
class Turner {
public:
  Turner(ProgramOp program, const Chains &chains) : program(program), chains(chains), builder(program.getContext()) {}

  void run() {
    SmallVector<Operation *> all;
    for (Operation &op : program.getBody().front())
      all.push_back(&op);
    for (Operation *op : all) {
      builder.setInsertionPoint(op);
      if (const llvm::SmallBitVector *tensors = chains.activationsIfTurned(op))
        turn(op, *tensors);
      else
        takeOut(op);
    }
    for (Operation *op : llvm::reverse(turned))
      op->erase();
    for (Operation *op : borders)
      if (op->use_empty())
        op->erase();
  }
  int64_t numTransposes() const { return transposes; }

private:
  void turn(Operation *op, const llvm::SmallBitVector &tensors) {
    SmallVector<Value> operands;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (tensors.test(i)) {
        operands.push_back(channelsLast(operand));
        continue;
      }
      Value other = inModelsOrder(operand);
      operands.push_back(isElementwise(op) ? aligned(other, tensorOf(op->getResult(0)).getRank()) : other);
    }
    SmallVector<Value> results = buildChannelsLast(builder, op, operands);
    for (auto [i, result, made] : llvm::enumerate(op->getResults(), results)) {
      if (tensors.test(op->getNumOperands() + i))
        last[result] = made;
      else
        result.replaceAllUsesWith(made);
    }
    turned.push_back(op);
  }

  /// What stands outside of the chains gets the model's order.
  void takeOut(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (wasTurned(value) && bringsToLast(op)) {
        op->getResult(0).replaceAllUsesWith(last.lookup(value));
        turned.push_back(op);
        return;
      }
      operand.set(inModelsOrder(value));
    }
  }

  /// Was what made it turned?
  bool wasTurned(Value value) const { return chains.isTurned(value) && chains.isMadeWithin(value); }

  Value inModelsOrder(Value value) {
    if (!wasTurned(value))
      return value;
    Value &made = first[value];
    if (!made)
      made = moved(value.getLoc(), last.lookup(value), shapeOf(value), keepsOrder(shapeOf(value)),
                   permutationToFirst(tensorOf(value).getRank()));
    return made;
  }

  Value channelsLast(Value value) {
    if (Value made = last.lookup(value))
      return made;
    int64_t rank = tensorOf(value).getRank();
    Shape shape = toChannelsLast(shapeOf(value));
    Value made;
    if (ConstantOp constant = splatOf(value)) {
      auto elements = cast<DenseElementsAttr>(constant.getValue());
      made = builder.create<ConstantOp>(constant.getLoc(), elements.resizeSplat(tensorOf(value).clone(shape)));
      borders.insert(constant);
    } else if (Operation *op = value.getDefiningOp(); isTransposeBy(op, permutationToFirst(rank))) {
      made = op->getOperand(0);
      borders.insert(op);
    } else {
      made = moved(value.getLoc(), value, shape, keepsOrder(shapeOf(value)), permutationToLast(rank));
    }
    return last[value] = made;
  }

  /// An operand that broadcasts, of lower rank.
  Value aligned(Value value, int64_t rank) {
    if (tensorOf(value).getNumElements() == 1)
      return value;
    Shape shape(rank - tensorOf(value).getRank(), 1);
    llvm::append_range(shape, shapeOf(value));
    TensorBuilder on(builder, value.getLoc());
    if (keepsOrder(shape))
      return on.reshape(value, toChannelsLast(shape));
    return moved(value.getLoc(), on.reshape(value, shape), {}, false, permutationToLast(rank));
  }

  /// Dimensions in another order: a view where that moves nothing.
  Value moved(Location location, Value value, ArrayRef<int64_t> shape, bool isView, ArrayRef<int64_t> permutation) {
    TensorBuilder on(builder, location);
    if (isView)
      return on.reshape(value, shape);
    ++transposes;
    return on.make<TransposeOp>(value, permutation);
  }

  ProgramOp program;
  const Chains &chains;
  OpBuilder builder;
  DenseMap<Value, Value> last, first; ///< values of the model in the other order, and brought back
  SmallVector<Operation *> turned;
  llvm::SmallSetVector<Operation *, 8> borders; ///< that may be needed no longer
  int64_t transposes = 0;
};

struct PropagateLayout : StagePass<impl::PropagateLayoutBase<PropagateLayout>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.layout == Layout::nchw)
      return markAllAnalysesPreserved();
    bool isTurned = false;
    for (auto program : getOperation().getOps<ProgramOp>()) {
      if (program.getPhase() == Phase::update)
        continue;
      Chains found(program, options);
      if (found.numTurned() == 0)
        continue;
      Turner turner(program, found);
      turner.run();
      isTurned = true;
      chains += found.numTurned();
      transposes += turner.numTransposes();
    }
    // What a chain's border meets: a transpose that the model has, or that another chain's border is.
    if (isTurned) {
      RewritePatternSet patterns(&getContext());
      addComposeTransposes(patterns);
      (void)rewriteGreedily(getOperation(), std::move(patterns), /*maxSweeps=*/10);
    }
  }
};

} // namespace

std::unique_ptr<Pass> createPropagateLayout(const GradStage &options) {
  return std::make_unique<PropagateLayout>(options);
}

} // namespace zc
