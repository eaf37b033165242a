//===- LossMean.cpp - a mean over all ranks instead of a mean of their means ---===//
//
// A loss S / c (S a sum over labels, c their weight) becomes S / n with a constant n, and c / n its weight: the
// gradients of all ranks and micro-steps then add up to n-ths of the gradient of the sum of all S, and the update
// divides by the weights' mean. With n the number of labels, ignored ones too, all numbers keep their size, and where
// none is ignored every weight is exactly 1.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/ModuleAttrs.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_LOSSMEAN
#include "compiler/grad/Passes.h.inc"

namespace {

int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

bool isConstant(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<ConstantOp>(op))
      return true;
    if (!isa<CastOp>(op) && !isView(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

/// What a loss turned out to be.
struct Found {
  Operation *mean = nullptr; ///< the operation that divides by the weight; null: each rank's weight is the same
};

class LossMeanRewriter {
public:
  explicit LossMeanRewriter(ProgramOp program) : program(program) {}

  /// Finds the weighted mean that `loss` is, up to constants.
  FailureOr<Found> find(Value loss) {
    bool scaled = false;
    for (Value value = loss; Operation *op = value.getDefiningOp();) {
      if (auto entropy = dyn_cast<CrossEntropyOp>(op); entropy && value == entropy.getLoss() && !entropy.getSum())
        return Found{isWeightedEntropy(value) ? op : nullptr};
      const bool isMean = isa<ReduceMeanOp>(op) && elementsOf(value) == 1;
      if ((isMean || (scaled && isSum(op))) && !isOfWeightedMeans(op->getOperand(0)))
        return Found{};
      const bool isOfOne = isa<ReduceMeanOp, ReduceSumOp>(op) && elementsOf(op->getOperand(0)) == 1;
      if (isOfOne || isa<CastOp, NegOp>(op) || isView(op)) {
        value = op->getOperand(0);
      } else if (isa<MulOp>(op) && (isConstant(op->getOperand(0)) || isConstant(op->getOperand(1)))) {
        value = op->getOperand(isConstant(op->getOperand(0)) ? 1 : 0);
        scaled = true;
      } else if (isa<DivOp>(op) && isConstant(op->getOperand(1))) {
        value = op->getOperand(0);
        scaled = true;
      } else if (isa<DivOp>(op) && elementsOf(op->getOperand(1)) == 1 && sumBelow(op->getOperand(0)) &&
                 !dependsOnTrained(op->getOperand(1))) {
        return Found{op};
      } else {
        break;
      }
    }
    return program.emitError("the loss is not recognised as a mean over labels, so its weight beside that of other "
                             "ranks is not known");
  }

  /// The weight of the mean, one f32, at `builder`; divided by `count`.
  Value weightOf(OpBuilder &builder, Operation *mean, int64_t count) {
    Location loc = mean->getLoc();
    auto f32 = TypeAttr::get(builder.getF32Type());
    Value weight;
    if (auto entropy = dyn_cast<CrossEntropyOp>(mean)) {
      auto labels = cast<RankedTensorType>(entropy.getLabels().getType());
      auto element = RankedTensorType::get({}, labels.getElementType());
      Value ignored = builder.create<ConstantOp>(
          loc,
          DenseElementsAttr::get(element, builder.getIntegerAttr(labels.getElementType(), entropy.getIgnoreIndex())));
      Value isIgnored = builder.create<EqualOp>(loc, entropy.getLabels(), ignored);
      Value numIgnored = builder.create<ReduceSumOp>(loc, builder.create<CastOp>(loc, isIgnored, f32),
                                                     ArrayRef<int64_t>{0}, /*keepdims=*/false);
      weight =
          builder.create<SubOp>(loc, number(builder, loc, static_cast<double>(labels.getNumElements())), numIgnored);
    } else {
      weight = builder.create<CastOp>(loc, mean->getOperand(1), f32);
      weight = builder.create<ReshapeOp>(loc, weight, ArrayRef<int64_t>{});
    }
    return builder.create<DivOp>(loc, weight, number(builder, loc, static_cast<double>(count)));
  }

  /// How many terms the numerator has.
  int64_t countOf(Operation *mean) {
    if (auto entropy = dyn_cast<CrossEntropyOp>(mean))
      return std::max<int64_t>(1, elementsOf(entropy.getLabels()));
    return std::max<int64_t>(1, elementsOf(sumBelow(mean->getOperand(0))->getOperand(0)));
  }

  /// Puts numerator / `count` in the place of the mean.
  void divideByCount(Operation *mean, int64_t count) {
    OpBuilder builder(mean);
    auto type = cast<RankedTensorType>(mean->getResult(0).getType());
    Value divisor = builder.create<ConstantOp>(
        mean->getLoc(),
        DenseElementsAttr::get(RankedTensorType::get(type.getShape(), type.getElementType()),
                               builder.getFloatAttr(type.getElementType(), static_cast<double>(count))));
    if (auto entropy = dyn_cast<CrossEntropyOp>(mean)) {
      entropy.setSum(true);
      builder.setInsertionPointAfter(mean);
      auto divided = builder.create<DivOp>(mean->getLoc(), entropy.getLoss(), divisor);
      entropy.getLoss().replaceAllUsesExcept(divided.getResult(), divided);
    } else {
      Value divided = builder.create<DivOp>(mean->getLoc(), mean->getOperand(0), divisor);
      mean->getResult(0).replaceAllUsesWith(divided);
      mean->erase();
    }
  }

private:
  static bool isSum(Operation *op) {
    auto entropy = dyn_cast<CrossEntropyOp>(op);
    return (isa<ReduceSumOp>(op) && elementsOf(op->getResult(0)) == 1) || (entropy && entropy.getSum());
  }

  /// The sum of everything that `value` is, up to constants and signs; null if it is none.
  static Operation *sumBelow(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (isSum(op))
        return op;
      if (isa<CastOp, NegOp>(op) || isView(op))
        value = op->getOperand(0);
      else if (isa<MulOp>(op) && isConstant(op->getOperand(1)))
        value = op->getOperand(0);
      else
        return nullptr;
    }
    return nullptr;
  }

  /// Whether `isFound` holds of `value` or of anything that it is computed from by operations that count as `through`.
  static bool anyBelow(Value value, llvm::function_ref<bool(Value)> isFound,
                       llvm::function_ref<bool(Operation *)> through) {
    llvm::SetVector<Value> work;
    work.insert(value);
    for (size_t i = 0; i < work.size(); ++i) {
      if (isFound(work[i]))
        return true;
      if (Operation *op = work[i].getDefiningOp(); op && through(op))
        work.insert(op->operand_begin(), op->operand_end());
    }
    return false;
  }

  bool dependsOnTrained(Value value) {
    SymbolTable symbols(program->getParentOfType<ModuleOp>());
    auto isTrained = [&](Value below) {
      auto read = below.getDefiningOp<ReadOp>();
      return read && symbols.lookup<ParameterOp>(read.getParameter()).getRole() == Role::trainable;
    };
    return anyBelow(value, isTrained, [](Operation *) { return true; });
  }

  /// A mean over labels of which some are ignored.
  static bool isWeightedEntropy(Value value) {
    auto entropy = value.getDefiningOp<CrossEntropyOp>();
    return entropy && value == entropy.getLoss() && !entropy.getSum() &&
           static_cast<int64_t>(entropy.getIgnoreIndex()) != INT64_MIN;
  }

  /// Is `value`, of which a mean or sum is taken, itself made of means whose weights differ between ranks? A quotient
  /// by one number from the data is such a mean where only sums and factors are on the way to it; further below the
  /// model normalizes by it.
  bool isOfWeightedMeans(Value value) {
    auto isQuotient = [&](Value below) {
      auto div = below.getDefiningOp<DivOp>();
      return div && elementsOf(div.getRhs()) == 1 && !isConstant(div.getRhs()) && !dependsOnTrained(div.getRhs());
    };
    auto isLinear = [](Operation *op) {
      const bool isSquare = isa<MulOp>(op) && op->getOperand(0) == op->getOperand(1);
      return isView(op) ||
             (!isSquare &&
              isa<CastOp, NegOp, ConcatOp, ExpandOp, AddOp, SubOp, MulOp, DivOp, SelectOp, ReduceSumOp, ReduceMeanOp>(
                  op));
    };
    return anyBelow(value, isQuotient, isLinear) ||
           anyBelow(value, isWeightedEntropy, [](Operation *) { return true; });
  }

  static Value number(OpBuilder &builder, Location loc, double value) {
    auto type = RankedTensorType::get({}, builder.getF32Type());
    return builder.create<ConstantOp>(loc,
                                      DenseElementsAttr::get(type, builder.getF32FloatAttr(static_cast<float>(value))));
  }

  ProgramOp program;
};

struct LossMeanPass : StagePass<impl::LossMeanBase<LossMeanPass>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.lossMean == LossMean::rank)
      return;
    ModuleOp module = getOperation();
    if (trainingOf(module).sumsGradients) {
      module.emitError("the model's own training sums gradients over micro-steps: there is no mean to take otherwise");
      return signalPassFailure();
    }
    for (auto program : module.getOps<ProgramOp>())
      if (program.getPhase() == Phase::micro && failed(run(program)))
        return signalPassFailure();
  }

private:
  LogicalResult run(ProgramOp program) {
    auto exit = cast<ReturnOp>(program.getBlock().getTerminator());
    std::optional<Outputs> outputs = outputsOf(program); // of a program that is evaluated
    if (outputs && !outputs->loss)
      return program.emitError("there is no loss to take the mean of");
    if (exit.getResults().empty())
      return exit.emitOpError("returns no loss");
    LossMeanRewriter rewriter(program);
    auto found = rewriter.find(exit.getResults()[outputs ? *outputs->loss : 0]);
    if (failed(found))
      return failure();
    if (!found->mean) // the same weight everywhere: both means are one
      return success();
    OpBuilder builder(found->mean);
    int64_t count = rewriter.countOf(found->mean);
    Value weight = rewriter.weightOf(builder, found->mean, count);
    ++weighted;
    if (outputs) {
      outputs->weight = exit.getNumOperands();
      outputs->names.push_back("loss_weight");
      setOutputs(program, outputs);
      exit.getResultsMutable().append(weight);
      return success();
    }
    rewriter.divideByCount(found->mean, count);
    exit.getResultsMutable().assign({exit.getResults().front(), weight});
    exit.setWeighted(true);
    Training training = trainingOf(getOperation());
    training.weightedLoss = true;
    setTraining(getOperation(), training);
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> createLossMean(const GradStage &options) { return std::make_unique<LossMeanPass>(options); }

} // namespace zc
