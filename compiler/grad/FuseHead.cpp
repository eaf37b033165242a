//===- FuseHead.cpp - a linear layer and the cross-entropy of its logits as one ---------===//
//
// How many rows of logits exist at a time is a balance: each chunk reads the whole weight, and adds to its whole
// gradient. With 512 rows a product does 256 operations for each byte of the weight in fp32, of which machines do ten
// to forty while they read it; with 256 a step of GPT-2 124M took 2 to 5 % longer than unfused, with 512 no longer.
// GPUs do two to three hundred operations in 16 bits for each byte they read or write, and sums of a 16-bit gradient
// are read and written in fp32: 4096 rows are 1000 operations for each byte of these (reckoned, not measured).
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"
#include "dialects/graph/KernelSpec.h"
#include "kernels/Workspace.h"

#include <cmath>

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_FUSEHEAD
#include "compiler/grad/Passes.h.inc"

namespace {

/// By target.
constexpr std::array<int64_t, 2> kRowsAtOnce = {512, 4096};
/// Less is not worth another order of sums.
constexpr int64_t kLeastSaved = int64_t(8) << 20;

/// A layer, its loss, and what stands between.
struct Head {
  MatmulOp layer;
  SmallVector<Operation *> between; ///< from the layer to the loss
  CrossEntropyOp loss;
};

class HeadFuser {
public:
  HeadFuser(ProgramOp program, const GradStage &options) : program(program), options(options) {
    findLive();
    if (!options.forwardOnly)
      findTrained();
  }

  unsigned run() {
    unsigned fused = 0;
    for (CrossEntropyOp loss : llvm::to_vector(program.getOps<CrossEntropyOp>()))
      if (std::optional<Head> head = headOf(loss); head && staysWhole(head->layer.getRhs(), options) && fuse(*head))
        ++fused;
    return fused;
  }

private:
  /// Float values that depend on a trainable parameter.
  void findTrained() {
    SymbolTable symbols(program->getParentOfType<ModuleOp>());
    for (Operation &op : program.getBlock()) {
      auto read = dyn_cast<ReadOp>(op);
      bool isTrained = read ? symbols.lookup<ParameterOp>(read.getParameter()).getRole() == Role::trainable
                            : llvm::any_of(op.getOperands(), [&](Value operand) { return trained.contains(operand); });
      if (isTrained)
        trained.insert(op.result_begin(), op.result_end());
    }
  }

  /// Is the use one of what is returned in the end? In training that is the loss and its weight.
  bool isKept(OpOperand &use) const {
    auto exit = dyn_cast<ReturnOp>(use.getOwner());
    return !exit || options.forwardOnly || use.getOperandNumber() <= (exit.getWeighted() ? 1u : 0u);
  }

  /// Operations that something depends on which is returned or has an effect.
  void findLive() {
    for (Operation &op : llvm::reverse(program.getBlock())) {
      auto isLive = [&](OpOperand &use) { return live.contains(use.getOwner()) && isKept(use); };
      if (isa<ReturnOp>(op) || !isMemoryEffectFree(&op) || llvm::any_of(op.getUses(), isLive))
        live.insert(&op);
    }
  }

  /// The live operation that uses `value`; null if there is none or another.
  Operation *onlyUser(Value value) const {
    Operation *only = nullptr;
    for (OpOperand &use : value.getUses()) {
      if (!live.contains(use.getOwner()) || !isKept(use))
        continue;
      if (only)
        return nullptr;
      only = use.getOwner();
    }
    return only;
  }

  /// Does `op` do the same to each class's logits, and can be done to the layer's input instead?
  static bool leavesClasses(Operation *op) {
    Value from = op->getNumOperands() == 1 ? op->getOperand(0) : Value();
    if (auto slice = dyn_cast<SliceOp>(op))
      return slice.getOffsets().back() == 0 && slice.getStrides().back() == 1 &&
             slice.getSizes().back() == shapeOf(from).back();
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return !reshape.getShape().empty() && !shapeOf(from).empty() && shapeOf(from).back() == reshape.getShape().back();
    // Sums in fp32 of 16 bits, as the kernels have them anyway.
    return isa<CastOp>(op) && isNarrow(elementOf(from)) && elementOf(op->getResult(0)).isF32();
  }

  /// A number that all logits are multiplied by, or divided by, which the layer's input can be instead.
  static std::optional<double> scaleOf(Operation *op) {
    Value by = isa<MulOp, DivOp>(op) ? op->getOperand(1) : Value();
    auto constant = by ? by.getDefiningOp<ConstantOp>() : ConstantOp();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (!splat || !isa<FloatType>(splat.getElementType()) || op->getOperand(0).getType() != op->getResult(0).getType())
      return std::nullopt;
    APFloat number = splat.getSplatValue<APFloat>();
    bool loses = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    const double value = number.convertToDouble();
    if (!std::isfinite(value) || value == 0)
      return std::nullopt;
    return isa<DivOp>(op) ? 1 / value : value;
  }

  /// Rounded to 16 bits, a scale would be another one for all logits.
  static bool isExactIn(Type element, double scale) {
    if (!isNarrow(element))
      return true;
    bool loses = false;
    APFloat(scale).convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
    return !loses;
  }

  /// A number for each class, added to all rows of `logits`, as a bias that the model keeps beside its layer.
  static bool isRowOf(Value row, Value logits) {
    ArrayRef<int64_t> shape = shapeOf(row);
    return !shape.empty() && !shapeOf(logits).empty() && shape.back() == shapeOf(logits).back() &&
           tensorOf(row).getNumElements() == shape.back();
  }

  /// The logits that `op` reads, if what it does can be done to the layer's input or its bias; null otherwise.
  static Value logitsBefore(Operation *op) {
    if (leavesClasses(op) || scaleOf(op))
      return op->getOperand(0);
    if (isa<AddOp>(op))
      for (unsigned i : {0u, 1u})
        if (op->getOperand(i).getType() == op->getResult(0).getType() &&
            isRowOf(op->getOperand(1 - i), op->getOperand(i)))
          return op->getOperand(i);
    return {};
  }

  static bool isNarrow(Type element) { return element.isBF16() || element.isF16(); }

  std::optional<Head> headOf(CrossEntropyOp loss) const {
    Head head;
    head.loss = loss;
    if (!loss.getLse().use_empty())
      return std::nullopt;
    Operation *user = loss;
    for (Value value = loss.getLogits(); onlyUser(value) == user; value = logitsBefore(user)) {
      user = value.getDefiningOp();
      if (!user)
        return std::nullopt;
      if (auto layer = dyn_cast<MatmulOp>(user)) {
        head.layer = layer;
        std::reverse(head.between.begin(), head.between.end());
        return isServed(head) ? std::optional(head) : std::nullopt;
      }
      if (!logitsBefore(user))
        return std::nullopt;
      head.between.push_back(user);
    }
    return std::nullopt;
  }

  /// Rows times a matrix, where rows get a gradient if anything does. The layer's gradients are made together.
  bool isServed(const Head &head) const {
    MatmulOp layer = head.layer;
    Type element = elementOf(layer.getLhs());
    if (shapeOf(layer.getRhs()).size() != 2 || layer.getTransLhs() || !(element.isF32() || isNarrow(element)))
      return false;
    auto isLost = [&](Operation *op) {
      if (isa<AddOp>(op))
        return elementOf(op->getResult(0)) != element;
      std::optional<double> scale = scaleOf(op);
      return scale && !isExactIn(element, *scale);
    };
    if (llvm::any_of(head.between, isLost))
      return false;
    return options.forwardOnly ||
           (trained.contains(layer.getLhs()) && (trained.contains(layer.getRhs()) || isFrozen(head)));
  }

  /// Is nothing of the layer trained, as where adapters are beside frozen weights (LoRA)?
  bool isFrozen(const Head &head) const {
    auto isTrained = [&](Value value) { return trained.contains(value); };
    auto hasTrainedRow = [&](Operation *op) {
      return isa<AddOp>(op) && isTrained(op->getOperand(op->getOperand(0) == logitsBefore(op) ? 1 : 0));
    };
    return llvm::none_of(head.layer->getOperands().drop_front(), isTrained) &&
           llvm::none_of(head.between, hasTrainedRow);
  }

  /// The layer's input and its bias, or none.
  struct Operands {
    Value rows, bias;
  };

  /// What was done to the logits, to the operands of the layer: `width` elements take the place of the classes.
  static Operands onOperands(TensorBuilder &on, const Head &head) {
    MatmulOp layer = head.layer;
    Operands made{layer.getLhs(), layer.getBias()};
    int64_t width = shapeOf(made.rows).back();
    for (Operation *op : head.between) {
      if (auto reshape = dyn_cast<ReshapeOp>(op)) {
        Shape shape(reshape.getShape());
        shape.back() = width;
        made.rows = on.reshape(made.rows, shape);
      } else if (auto slice = dyn_cast<SliceOp>(op)) {
        Shape sizes(slice.getSizes());
        sizes.back() = width;
        made.rows = on.make<SliceOp>(made.rows, slice.getOffsets(), sizes, slice.getStrides());
      } else if (std::optional<double> scale = scaleOf(op)) {
        made.rows = on.scale(made.rows, *scale);
        made.bias = made.bias ? on.scale(made.bias, *scale) : Value();
      } else if (isa<AddOp>(op)) {
        Value row = op->getOperand(op->getOperand(0) == logitsBefore(op) ? 1 : 0);
        row = on.reshape(row, {shapeOf(row).back()});
        made.bias = made.bias ? on.add(made.bias, row) : row;
      }
    }
    return made;
  }

  bool fuse(Head &head) {
    CrossEntropyOp loss = head.loss;
    MatmulOp layer = head.layer;
    ArrayRef<int64_t> logits = shapeOf(loss.getLogits());
    int64_t chunks = llvm::divideCeil(logits[0], kRowsAtOnce[static_cast<size_t>(options.target)]);
    if (chunks < 2)
      return false;
    int64_t chunk = llvm::divideCeil(logits[0], chunks); // all alike
    Type element = elementOf(layer.getLhs());
    int64_t apart = logits[0] * logits[1] * bytesOfElement(element) + layer.getWorkspaceBytes(options.target);
    if (apart - workspaceOf(head, chunk) < kLeastSaved)
      return false;
    OpBuilder builder(loss);
    TensorBuilder on(builder, loss.getLoc());
    Operands operands = onOperands(on, head);
    Value fused = on.make<LinearCrossEntropyOp>(operands.rows, loss.getLabels(), layer.getRhs(), operands.bias,
                                                layer.getTransRhs(), loss.getIgnoreIndex(), loss.getSum(), chunk);
    loss.getLoss().replaceAllUsesWith(fused);
    loss.erase();
    eraseUnused(head);
    return true;
  }

  /// Bytes that the kernel of the plan works in: of the gradients, if there are some.
  int64_t workspaceOf(const Head &head, int64_t chunk) const {
    CrossEntropyOp loss = head.loss;
    MatmulOp layer = head.layer;
    Type input = RankedTensorType::get({shapeOf(loss.getLogits())[0], shapeOf(layer.getLhs()).back()},
                                       elementOf(layer.getLhs()));
    SmallVector<Type> layerTypes{input, layer.getRhs().getType()},
        types{input, loss.getLabels().getType(), layer.getRhs().getType()};
    if (layer.getBias() || llvm::any_of(head.between, [](Operation *op) { return isa<AddOp>(op); })) {
      Type bias = RankedTensorType::get(shapeOf(loss.getLogits()).take_back(), elementOf(layer.getLhs()));
      layerTypes.push_back(bias);
      types.push_back(bias);
    }
    zc::KernelSpec spec;
    spec.name = "linear_cross_entropy";
    if (!options.forwardOnly) {
      spec.name += "_grad";
      types.insert(types.begin(), loss.getLoss().getType());
    }
    spec.numInputs = types.size();
    types.push_back(loss.getLoss().getType());
    if (!options.forwardOnly)
      llvm::append_range(types, ArrayRef(layerTypes).take_front(isFrozen(head) ? 1 : layerTypes.size()));
    for (Type type : types)
      spec.operands.push_back(*toTensorType(type));
    spec.attributes["chunk"] = chunk;
    if (!options.forwardOnly && isFrozen(head))
      spec.attributes["frozen"] = int64_t(1);
    if (layer.getTransRhs())
      spec.attributes["trans_weight"] = int64_t(1);
    return zc::workspaceBytes(spec, options.target);
  }

  /// What is still returned, differentiate drops.
  static void eraseUnused(Head &head) {
    for (Operation *op : llvm::reverse(head.between))
      if (op->use_empty())
        op->erase();
    if (head.layer->use_empty())
      head.layer.erase();
  }

  ProgramOp program;
  const GradStage &options;
  DenseSet<Operation *> live;
  DenseSet<Value> trained;
};

struct FuseHead : StagePass<impl::FuseHeadBase<FuseHead>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.fuse == Fuse::off)
      return markAllAnalysesPreserved();
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getPhase() != Phase::update && !program.getOps<CrossEntropyOp>().empty())
        heads += HeadFuser(program, options).run();
  }
};

} // namespace

std::unique_ptr<Pass> createFuseHead(const GradStage &options) { return std::make_unique<FuseHead>(options); }

} // namespace zc
