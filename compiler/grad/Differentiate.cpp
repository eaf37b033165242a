//===- Differentiate.cpp - reverse mode over the micro-step -------------------===//
//
// The reverse sweep meets operations in reverse program order, with one exception: an operation that depends on nothing
// but parameters (a transposed or cast weight, and the read itself) is met as soon as its last user is. Import may
// place such operations anywhere above their use, and a gradient that is complete should be accumulated, and its memory
// given back, at once.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/OpNumbers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_DIFFERENTIATE
#include "compiler/grad/Passes.h.inc"

namespace {

bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

/// One reverse sweep over one program.
class Sweep {
public:
  Sweep(ProgramOp program, ReturnOp exit, bool scaleLoss)
      : exit(exit), block(program.getBlock()), builder(exit), scaleLoss(scaleLoss) {
    for (auto parameter : program->getParentOfType<ModuleOp>().getOps<ParameterOp>())
      parameters[parameter.getSymName()] = parameter;
  }

  LogicalResult run();
  /// Trainable parameters that got a gradient.
  const llvm::StringMap<bool> &trained() const { return accumulated; }
  unsigned numForward = 0;

private:
  /// What is known of an operation of the forward.
  struct Facts {
    Operation *op = nullptr;
    bool isActive = false;  ///< its float results depend on a trainable parameter
    bool isForeign = false; ///< depends on something else than parameters and constants
    bool isOnPath = false;  ///< between a trainable parameter and the loss; until the sweep has met it
    unsigned usersLeft = 0; ///< uses on the path that the sweep has not met
  };

  void noteForward();
  void findPath();
  /// Of what makes a value of the forward; null for an argument of the program.
  Facts *makerOf(Value value) {
    Operation *maker = value.getDefiningOp();
    return maker ? &forward[place.lookup(maker)] : nullptr;
  }
  /// What makes a value that a gradient goes to; null for others.
  Facts *activeMakerOf(Value value) {
    Facts *maker = makerOf(value);
    return maker && maker->isActive && isFloat(value) ? maker : nullptr;
  }
  LogicalResult visit(Facts &facts);
  /// `uses`: on the path and not met, the next one last; gets those that the operation makes of its operands.
  LogicalResult meet(Facts &facts, SmallVectorImpl<Facts *> &uses);
  LogicalResult visitDifferentiable(Operation *op, ArrayRef<Facts *> makers);
  void visitRead(ReadOp read);
  void contribute(Value value, Value gradient);
  bool isTrainable(ReadOp read) { return parameters.lookup(read.getParameter()).getRole() == Role::trainable; }

  ReturnOp exit;
  Block &block;
  OpBuilder builder;
  bool scaleLoss;
  llvm::StringMap<ParameterOp> parameters;
  std::vector<Facts> forward;          ///< in order
  OpNumbers place;                     ///< in `forward`
  llvm::StringMap<unsigned> readsLeft; ///< reads on the path the sweep has not met, per parameter
  DenseMap<Value, Value> gradients;
  llvm::StringMap<Value> parameterGradients;
  llvm::StringMap<bool> accumulated;
};

/// Forward reachability from trainable reads.
void Sweep::noteForward() {
  forward.reserve(block.getOperations().size());
  for (Operation &op : block.without_terminator()) {
    Facts facts;
    facts.op = &op;
    for (Value operand : op.getOperands()) {
      Facts *maker = makerOf(operand);
      facts.isForeign |= !maker || maker->isForeign;
      facts.isActive |= maker && maker->isActive && isFloat(operand);
    }
    if (auto read = dyn_cast<ReadOp>(op))
      facts.isActive = isTrainable(read);
    else
      facts.isActive = facts.isActive && !stopsGradient(&op);
    place.set(&op, forward.size());
    forward.push_back(facts);
  }
}

/// Backward from the loss.
void Sweep::findPath() {
  Value loss = exit.getResults().front();
  if (Facts *last = activeMakerOf(loss))
    last->isOnPath = true;
  for (Facts &facts : llvm::reverse(forward)) {
    if (!facts.isOnPath)
      continue;
    if (auto read = dyn_cast<ReadOp>(facts.op))
      ++readsLeft[read.getParameter()];
    for (Value operand : facts.op->getOperands()) {
      Facts *maker = activeMakerOf(operand);
      if (!maker)
        continue;
      maker->isOnPath = true;
      ++maker->usersLeft;
    }
  }
}

void Sweep::contribute(Value value, Value gradient) {
  Value &sum = gradients[value];
  sum = sum ? builder.create<AddOp>(gradient.getLoc(), sum, gradient).getResult() : gradient;
}

void Sweep::visitRead(ReadOp read) {
  StringRef name = read.getParameter();
  if (Value gradient = gradients.lookup(read.getResult())) {
    Value &sum = parameterGradients[name];
    sum = sum ? builder.create<AddOp>(gradient.getLoc(), sum, gradient).getResult() : gradient;
  }
  Value sum = parameterGradients.lookup(name);
  if (--readsLeft[name] != 0 || !sum)
    return;
  builder.create<AccumulateGradOp>(sum.getLoc(), name, sum);
  accumulated[name] = true;
}

/// `makers`: of the operands, null for those that no gradient goes to.
LogicalResult Sweep::visitDifferentiable(Operation *op, ArrayRef<Facts *> makers) {
  SmallVector<Value> resultGradients;
  for (Value result : op->getResults())
    resultGradients.push_back(gradients.lookup(result));
  if (llvm::none_of(resultGradients, [](Value gradient) { return bool(gradient); }))
    return success();
  auto differentiable = dyn_cast<Differentiable>(op);
  if (!differentiable)
    return op->emitOpError("has no derivative, but the loss depends on trained parameters through it");
  SmallVector<bool> wanted;
  for (Facts *maker : makers)
    wanted.push_back(maker != nullptr);
  SmallVector<Value> operandGradients(op->getNumOperands());
  if (failed(differentiable.buildGradient(builder, resultGradients, wanted, operandGradients)))
    return failure();
  ++numForward;
  for (auto [operand, gradient, isWanted] : llvm::zip(op->getOperands(), operandGradients, wanted)) {
    if (!gradient || !isWanted)
      continue;
    if (gradient.getType() != operand.getType())
      return op->emitOpError("has a gradient of type ")
             << gradient.getType() << " for an operand of type " << operand.getType();
    contribute(operand, gradient);
  }
  // A gradient is needed no longer once it has been passed on.
  for (Value result : op->getResults())
    gradients.erase(result);
  return success();
}

LogicalResult Sweep::meet(Facts &facts, SmallVectorImpl<Facts *> &uses) {
  if (!std::exchange(facts.isOnPath, false))
    return success();
  if (auto read = dyn_cast<ReadOp>(facts.op))
    return visitRead(read), success();
  SmallVector<Facts *> makers =
      llvm::map_to_vector(facts.op->getOperands(), [&](Value operand) { return activeMakerOf(operand); });
  llvm::copy_if(llvm::reverse(makers), std::back_inserter(uses), [](Facts *maker) { return maker != nullptr; });
  return visitDifferentiable(facts.op, makers);
}

/// What depends on parameters alone goes as soon as its last use has been met, depth first. Such chains may be as long
/// as a model: no call stack holds them.
LogicalResult Sweep::visit(Facts &facts) {
  SmallVector<Facts *> uses;
  if (failed(meet(facts, uses)))
    return failure();
  while (!uses.empty()) {
    Facts &before = *uses.pop_back_val();
    if (--before.usersLeft == 0 && !before.isForeign && failed(meet(before, uses)))
      return failure();
  }
  return success();
}

LogicalResult Sweep::run() {
  noteForward();
  findPath();
  Value loss = exit.getResults().front();
  OpBuilder border(exit);
  if (Operation *last = loss.getDefiningOp())
    border.setInsertionPointAfter(last);
  border.create<BackwardOp>(loss.getLoc());
  if (Facts *last = makerOf(loss); last && last->isOnPath) {
    auto type = cast<RankedTensorType>(loss.getType());
    auto one = DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 1.0));
    gradients[loss] = scaleLoss ? builder.create<LossScaleOp>(loss.getLoc(), type).getResult()
                                : builder.create<ConstantOp>(loss.getLoc(), one).getResult();
  }
  // The backward grows behind the last forward operation.
  for (Facts &facts : llvm::reverse(forward))
    if (failed(visit(facts)))
      return failure();
  SmallVector<Value> kept{loss};
  if (Value weight = exit.getLossWeight())
    kept.push_back(weight);
  exit.getResultsMutable().assign(kept);
  return success();
}

/// Is `read` there for nothing but the change of its buffer, as running statistics mostly are?
bool isOnlyFollowed(ReadOp read) {
  return llvm::all_of(read->getUsers(), [](Operation *user) {
    return isa<AssignOp>(user) || (user->getNumResults() == 1 &&
                                   llvm::all_of(user->getUsers(), [](Operation *of) { return isa<AssignOp>(of); }));
  });
}

/// A stored tensor is read where it is, by backward too, and by what is computed again there: one that forward changes,
/// and computes with besides, is changed at the end. Who reads it behind the change has the value that it was given.
void changeBuffersLast(ProgramOp program) {
  llvm::StringMap<bool> isComputedWith;
  for (auto read : program.getOps<ReadOp>())
    isComputedWith[read.getParameter()] |= !isOnlyFollowed(read);
  llvm::MapVector<StringAttr, AssignOp> last;
  for (Operation &op : llvm::make_early_inc_range(program.getBlock())) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto change = last.find(read.getParameterAttr().getAttr());
      if (change == last.end())
        continue;
      read.replaceAllUsesWith(change->second.getValue());
      read.erase();
    } else if (auto assign = dyn_cast<AssignOp>(op); assign && isComputedWith.lookup(assign.getParameter())) {
      AssignOp &known = last[assign.getParameterAttr().getAttr()];
      if (known)
        known.erase();
      known = assign;
    }
  }
  for (auto &[name, assign] : last)
    assign->moveBefore(program.getBlock().getTerminator());
}

struct Differentiate : StagePass<impl::DifferentiateBase<Differentiate>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getPhase() == Phase::micro)
        return failed(run(program)) ? signalPassFailure() : void();
    getOperation().emitError("there is no graph.program of phase 'micro' to differentiate");
    signalPassFailure();
  }

  LogicalResult run(ProgramOp program) {
    auto exit = cast<ReturnOp>(program.getBlock().getTerminator());
    if (exit.getResults().empty())
      return exit.emitOpError("returns no loss to differentiate");
    Value loss = exit.getResults().front();
    if (cast<RankedTensorType>(loss.getType()).getRank() != 0 || !isFloat(loss))
      return exit.emitOpError("the loss has type ") << loss.getType() << ", not that of a scalar float";
    if (!program.getOps<AccumulateGradOp>().empty())
      return program.emitOpError("has gradients already: differentiate runs once");

    auto count = [&] { return program.getBlock().getOperations().size(); };
    size_t before = count();
    Sweep sweep(program, exit, /*scaleLoss=*/options.precision == Precision::fp16);
    if (failed(sweep.run()))
      return failure();
    changeBuffersLast(program);
    forward += sweep.numForward;
    backward += count() - before;
    for (auto parameter : getOperation().getOps<ParameterOp>()) {
      if (parameter.getRole() != Role::trainable || sweep.trained().contains(parameter.getSymName()))
        continue;
      parameter.emitWarning("parameter '") << parameter.getSymName() << "' gets no gradient from the loss: frozen";
      parameter.setRole(Role::frozen);
      ++frozen;
    }
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> createDifferentiate(const GradStage &options) { return std::make_unique<Differentiate>(options); }

} // namespace zc
