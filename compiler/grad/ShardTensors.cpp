//===- ShardTensors.cpp - the micro-step in parts, one for each rank of the model axis ---------===//
//
// Behind it all ranks of the axis execute the same program on their parts. Every value is whole (equal bits on all
// ranks) or cut; a partial sum never leaves the operation that makes it.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "compiler/grad/RowSearch.h"
#include "dialects/graph/ModuleAttrs.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_SHARDTENSORS
#include "compiler/grad/Passes.h.inc"

namespace {

/// Rewrites one program.
class Partitioner {
public:
  Partitioner(ProgramOp program, const Sharding &sharding, int64_t ranks)
      : program(program), sharding(sharding), ranks(ranks), builder(program.getContext()) {
    for (auto &[op, weight] : sharding.weights)
      if (weight.cut)
        weights[ParameterOp(weight.parameter).getSymName()] = &weight;
  }

  void run() {
    cutParameters();
    SmallVector<Operation *> replaced;
    for (Operation *op : llvm::to_vector(llvm::make_pointer_range(program.getBlock()))) {
      auto cut = sharding.operations.find(op);
      if (cut != sharding.operations.end()) {
        rewrite(op, cut->second);
        replaced.push_back(op);
      } else if (auto read = dyn_cast<ReadOp>(op); read && weights.count(read.getParameter())) {
        TensorCut own = *weights.lookup(read.getParameter())->cut;
        builder.setInsertionPoint(op);
        Type type = partType(cast<RankedTensorType>(read.getResult().getType()), own, ranks);
        parts[read.getResult()] = {builder.create<ReadOp>(op->getLoc(), type, read.getParameterAttr()), own};
        replaced.push_back(op);
      } else {
        for (OpOperand &operand : op->getOpOperands())
          operand.set(wholeOf(operand.get()));
      }
    }
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
  }

private:
  struct Part {
    Value value;
    TensorCut cut;
  };

  void cutParameters() {
    for (auto &[op, weight] : sharding.weights) {
      if (!weight.cut)
        continue;
      ParameterOp parameter = weight.parameter;
      auto whole = cast<RankedTensorType>(parameter.getType());
      parameter.setCutAttr(CutAttr::get(builder.getContext(), weight.cut->dim, weight.cut->groups, whole));
      parameter.setType(partType(whole, *weight.cut, ranks));
    }
  }

  void rewrite(Operation *op, const OpCut &cut) {
    SmallVector<Value> operands;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      operands.push_back(cut.operands[i]                     ? partOf(operand, *cut.operands[i])
                         : llvm::is_contained(cut.behind, i) ? wholeOf(operand)
                                                             : divergeOf(operand));
    builder.setInsertionPoint(op);
    SmallVector<Value> results = buildParts(builder, op, cut, operands, ranks);
    for (auto [old, value, own] : llvm::zip(op->getResults(), results, cut.results)) {
      if (own)
        parts[old] = {value, *own};
      else
        wholes[old] = value;
    }
  }

  /// The value as all ranks have it; gathered, once, behind where its parts are made.
  Value wholeOf(Value value) {
    if (Value known = wholes.lookup(value))
      return known;
    auto part = parts.find(value);
    if (part == parts.end())
      return value;
    builder.setInsertionPointAfterValue(part->second.value);
    return wholes[value] = gatherParts(builder, value.getLoc(), part->second.value, part->second.cut, ranks);
  }

  Value partOf(Value value, TensorCut cut) {
    auto part = parts.find(value);
    if (part != parts.end() && part->second.cut == cut)
      return part->second.value;
    Value whole = wholeOf(value), &known = slices[{whole, {cut.dim, cut.groups}}];
    if (!known) {
      builder.setInsertionPointAfterValue(whole);
      known = slicePart(builder, value.getLoc(), whole, cut, ranks);
    }
    return known;
  }

  /// A whole value, read by what each rank does for its own part.
  Value divergeOf(Value value) {
    Value whole = wholeOf(value);
    if (!isa<FloatType>(cast<RankedTensorType>(whole.getType()).getElementType()) || whole.getDefiningOp<ConstantOp>())
      return whole;
    Value &known = diverged[whole];
    if (!known) {
      builder.setInsertionPointAfterValue(whole);
      known = builder.create<DivergeOp>(value.getLoc(), whole);
    }
    return known;
  }

  ProgramOp program;
  const Sharding &sharding;
  int64_t ranks;
  OpBuilder builder;
  llvm::StringMap<const Sharding::Weight *> weights; ///< that are cut
  DenseMap<Value, Part> parts;                       ///< of values of the old program, those of the new one
  DenseMap<Value, Value> wholes, diverged;
  DenseMap<std::pair<Value, std::pair<int64_t, int64_t>>, Value> slices;
};

struct ShardTensors : StagePass<impl::ShardTensorsBase<ShardTensors>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ProgramOp program = programOf(module, Phase::micro);
    if (options.modelRanks < 2 || !program)
      return;
    Sharding sharding = findSharding(program, options.modelRanks);
    if (!sharding.cutsSomething())
      return refuse(sharding);
    tellWholeAttention(program, sharding);
    Partitioner(program, sharding, options.modelRanks).run();
    setModelRanks(module, options.modelRanks);
    for (auto &[op, weight] : sharding.weights)
      weight.cut ? ++cut : ++kept;
    if (options.sequenceParallel)
      cutRows(program);
  }

  /// Of the first; the others of a model are as it is.
  void tellWholeAttention(ProgramOp program, const Sharding &sharding) {
    auto headsOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(1); };
    for (auto attention : program.getBlock().getOps<AttentionOp>()) {
      const int64_t heads = headsOf(attention.getQuery()), keys = headsOf(attention.getKey());
      if (heads > 1 && !sharding.operations.count(attention)) {
        attention.emitRemark("attention of ")
            << heads << " heads, " << keys << " of keys, is computed whole by each of " << options.modelRanks
            << " ranks";
        return;
      }
    }
  }

  /// Of what is between the regions that are cut by now.
  void cutRows(ProgramOp program) {
    Rows found = findRows(program, options.modelRanks);
    if (found.operations.empty()) {
      InFlightDiagnostic error = getOperation().emitError("--sequence-parallel finds no rows to cut over ")
                                 << options.modelRanks << " ranks";
      error.attachNote() << (found.why.empty() ? "no sum over ranks has rows" : found.why);
      return signalPassFailure();
    }
    rows += found.operations.size();
    Sharding sharding;
    sharding.operations = std::move(found.operations);
    Partitioner(program, sharding, options.modelRanks).run();
  }

  void refuse(const Sharding &sharding) {
    InFlightDiagnostic error = getOperation().emitError("no weight can be cut over ") << options.modelRanks << " ranks";
    std::string reasons;
    for (auto &[op, weight] : sharding.weights)
      reasons +=
          (reasons.empty() ? "'" : "; '") + ParameterOp(weight.parameter).getSymName().str() + "': " + weight.why;
    error.attachNote() << reasons;
    signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> createShardTensors(const GradStage &options) { return std::make_unique<ShardTensors>(options); }

} // namespace zc
