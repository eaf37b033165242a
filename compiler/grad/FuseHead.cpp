//===- FuseHead.cpp - a linear layer and the cross-entropy of its logits as one ---------===//
//
// How many rows of logits exist at a time is a balance: each chunk reads the whole weight, and adds to its whole
// gradient. With 512 rows a product does 256 operations for each byte of the weight in fp32, of which machines do ten
// to forty while they read it; with 256 a step of GPT-2 124M took 2 to 5 % longer than unfused, with 512 no longer.
// GPUs do two to three hundred operations in 16 bits for each byte they read or write, and sums of a 16-bit gradient
// are read and written in fp32: 4096 rows are 1000 operations for each byte of these (reckoned, not measured).
//
// Those sums are as large as the weight twice over, whatever the rows: of GPT-2 124M in bf16 147 MiB, beside 49 of a
// chunk's logits. So 1024 and 2048 rows, whose logits have 98 and 196 MiB, stay apart, as less is planned so; 4096 are
// planned with 3126 MiB instead of 3321, 8192 with 4299 instead of 4887. Of a frozen head, without sums, 1024 rows take
// 1584 MiB instead of 1630. Without sums for a trained one it would take chunks of classes instead of rows, of which
// each makes its rows of the gradient as a whole, but logits twice: four products for three.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/HeadOperands.h"
#include "compiler/grad/LogReaders.h"
#include "compiler/grad/Passes.h"
#include "dialects/graph/KernelSpec.h"
#include "kernels/Workspace.h"

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

class HeadFuser {
public:
  HeadFuser(ProgramOp program, const GradStage &options) : program(program), options(options) { findUses(); }

  unsigned run() {
    unsigned fused = 0;
    for (CrossEntropyOp loss : llvm::to_vector(program.getOps<CrossEntropyOp>()))
      if (std::optional<HeadOperands> head = headOf(loss, loss.getLogits());
          head && loss.getLse().use_empty() && fuse(*head, loss))
        ++fused, findUses();
    for (LogSoftmaxOp logs : llvm::to_vector(program.getOps<LogSoftmaxOp>()))
      if (std::optional<HeadOperands> head = headOf(logs, logs.getInput()); head && fuse(*head, logs))
        ++fused, findUses();
    return fused;
  }

private:
  /// What counts of the program as it is.
  void findUses() {
    live.clear();
    trained.clear();
    findLive();
    if (!options.forwardOnly)
      findTrained();
  }

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
      auto counts = [&](OpOperand &use) { return isLive(use); };
      if (isa<ReturnOp>(op) || !isMemoryEffectFree(&op) || llvm::any_of(op.getUses(), counts))
        live.insert(&op);
    }
  }

  /// The live operation that uses `value`; null if there is none or another.
  Operation *onlyUser(Value value) const {
    Operation *only = nullptr;
    for (OpOperand &use : value.getUses()) {
      if (!isLive(use))
        continue;
      if (only)
        return nullptr;
      only = use.getOwner();
    }
    return only;
  }

  /// The layer whose logits `loss` reads, by way of `value`, and nobody else does.
  std::optional<HeadOperands> headOf(Operation *loss, Value value) const {
    SmallVector<Operation *> between;
    for (Operation *user = loss; onlyUser(value) == user; value = logitsBefore(user)) {
      user = value.getDefiningOp();
      if (auto layer = dyn_cast_or_null<MatmulOp>(user)) {
        std::reverse(between.begin(), between.end());
        std::optional<HeadOperands> head = HeadOperands::of(layer, between);
        return head && isServed(*head) ? head : std::nullopt;
      }
      if (!user || !logitsBefore(user))
        return std::nullopt;
      between.push_back(user);
    }
    return std::nullopt;
  }

  /// Do its rows get a gradient, if anything does? The layer's gradients are made together, or none is.
  bool isServed(const HeadOperands &head) const {
    MatmulOp layer = head.layer;
    return staysWhole(layer.getRhs(), options) &&
           (options.forwardOnly ||
            (trained.contains(layer.getLhs()) && (trained.contains(layer.getRhs()) || isFrozen(head))));
  }

  /// Is nothing of the layer trained, as where adapters are beside frozen weights (LoRA)?
  bool isFrozen(const HeadOperands &head) const {
    MatmulOp layer = head.layer;
    return !trained.contains(layer.getRhs()) &&
           llvm::none_of(head.biases, [&](const auto &bias) { return trained.contains(bias.row); });
  }

  /// Is the use one that counts?
  bool isLive(OpOperand &use) const { return live.contains(use.getOwner()) && isKept(use); }

  /// Rows of a chunk, all alike; nothing where there would be one chunk, or little is saved.
  std::optional<int64_t> chunkOf(HeadOperands &head, ArrayRef<Type> wanted, ArrayRef<Type> results) const {
    const int64_t rows = cast<RankedTensorType>(wanted[0]).getDimSize(0);
    const int64_t chunks = llvm::divideCeil(rows, kRowsAtOnce[static_cast<size_t>(options.target)]);
    if (chunks < 2)
      return std::nullopt;
    const int64_t chunk = llvm::divideCeil(rows, chunks);
    const int64_t apart =
        rows * head.classes() * bytesOfElement(head.element()) + head.layer.getWorkspaceBytes(options.target);
    return apart - workspaceOf(head, wanted, results, chunk) < kLeastSaved ? std::nullopt : std::optional(chunk);
  }

  bool fuse(HeadOperands &head, CrossEntropyOp loss) {
    std::optional<int64_t> chunk = chunkOf(head, loss.getLabels().getType(), loss.getLoss().getType());
    if (!chunk)
      return false;
    OpBuilder builder(loss);
    TensorBuilder on(builder, loss.getLoc());
    Value rows = head.buildRows(on), bias = head.buildBias(on);
    Value fused =
        on.make<LinearCrossEntropyOp>(rows, loss.getLabels(), head.layer.getRhs(), bias, head.layer.getTransRhs(),
                                      loss.getIgnoreIndex(), loss.getSum(), *chunk, capOf(head, builder));
    loss.getLoss().replaceAllUsesWith(fused);
    loss.erase();
    eraseUnused(head);
    return true;
  }

  bool fuse(HeadOperands &head, LogSoftmaxOp logs) {
    std::optional<LogReaders> readers = LogReaders::of(logs, [&](OpOperand &use) { return isLive(use); });
    if (!readers || (readers->weights && trained.contains(readers->weights)))
      return false;
    const int64_t rows = tensorOf(readers->indices).getNumElements(), classes = head.classes();
    const Type wide = Float32Type::get(logs.getContext()), ofRows = RankedTensorType::get({rows}, wide);
    std::optional<int64_t> chunk = chunkOf(
        head, {RankedTensorType::get({rows}, elementOf(readers->indices)), RankedTensorType::get({classes}, wide)},
        {ofRows, ofRows});
    if (!chunk || !readers->hoistBefore(logs))
      return false;
    OpBuilder builder(logs);
    TensorBuilder on(builder, logs.getLoc());
    Value input = head.buildRows(on), bias = head.buildBias(on);
    Value labels = readers->buildLabels(on), shares = readers->buildShares(on, classes);
    auto fused = on.create<LinearLogSoftmaxOp>(input, labels, shares, head.layer.getRhs(), bias,
                                               head.layer.getTransRhs(), *chunk, capOf(head, builder));
    readers->replace(fused.getPicked(), fused.getShared(), classes);
    if (logs->use_empty())
      logs.erase();
    eraseUnused(head);
    return true;
  }

  static FloatAttr capOf(const HeadOperands &head, OpBuilder &builder) {
    return head.cap == 0 ? FloatAttr() : builder.getF64FloatAttr(head.cap);
  }

  /// Bytes that the kernel of the plan works in: of the gradients, if there are some. `wanted`: its operands that say
  /// of what there are `results`.
  int64_t workspaceOf(HeadOperands &head, ArrayRef<Type> wanted, ArrayRef<Type> results, int64_t chunk) const {
    MatmulOp layer = head.layer;
    Type input = RankedTensorType::get(
        {cast<RankedTensorType>(wanted[0]).getDimSize(0), shapeOf(layer.getLhs()).back()}, head.element());
    SmallVector<Type> layerTypes{layer.getRhs().getType()};
    if (!head.biases.empty())
      layerTypes.push_back(RankedTensorType::get({head.classes()}, head.element()));
    const bool hasGradients = !options.forwardOnly, ofLayer = hasGradients && !isFrozen(head);
    SmallVector<Type> types;
    zc::KernelSpec spec;
    spec.name = results.size() == 1 ? "linear_cross_entropy" : "linear_log_softmax";
    if (hasGradients) {
      spec.name += "_grad";
      llvm::append_range(types, results);
    }
    types.push_back(input);
    llvm::append_range(types, wanted);
    llvm::append_range(types, layerTypes);
    spec.numInputs = types.size();
    llvm::append_range(types, results);
    if (hasGradients)
      types.push_back(input);
    if (ofLayer)
      llvm::append_range(types, layerTypes);
    for (Type type : types)
      spec.operands.push_back(*toTensorType(type));
    spec.attributes["chunk"] = chunk;
    if (layer.getTransRhs())
      spec.attributes["trans_weight"] = int64_t(1);
    if (hasGradients && !ofLayer)
      spec.attributes["frozen"] = int64_t(1);
    if (head.cap != 0)
      spec.attributes["cap"] = head.cap;
    return zc::workspaceBytes(spec, options.target);
  }

  /// What is still returned, differentiate drops.
  static void eraseUnused(HeadOperands &head) {
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
      if (program.getPhase() != Phase::update)
        heads += HeadFuser(program, options).run();
  }
};

} // namespace

std::unique_ptr<Pass> createFuseHead(const GradStage &options) { return std::make_unique<FuseHead>(options); }

} // namespace zc
