//===- ZeroVertical.cpp - all micro-steps of a block before the next block -----------------===//

#include "compiler/grad/Cuts.h"
#include "compiler/shard/Passes.h"
#include "dialects/zero/Execution.h"

#include "mlir/IR/IRMapping.h"

namespace zc {
#define GEN_PASS_DEF_ZEROVERTICAL
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// The micro-steps of a step, written out. What is there already becomes the first of them.
class Unroller {
public:
  Unroller(graph::ProgramOp program, int64_t accumulation)
      : program(program), exit(cast<graph::ReturnOp>(program.getBlock().getTerminator())),
        maps(static_cast<size_t>(accumulation)) {}

  void run() {
    addInputs();
    std::vector<Operation *> operations;
    Operation *border = program.getBackward();
    size_t forward = 0; // operations of it
    for (Operation &op : program.getBlock().without_terminator())
      if (&op != border)
        operations.push_back(&op);
      else
        forward = operations.size();
    if (!border)
      forward = operations.size();
    size_t begin = 0;
    for (size_t end : endsOfSegments(operations, forward)) {
      bool isBorder = border && end == forward;
      OpBuilder builder(isBorder ? border : end < operations.size() ? operations[end] : exit.getOperation());
      for (size_t micro = 1; micro < maps.size(); ++micro)
        for (size_t i = begin; i < end; ++i)
          if (!isShared(operations[i]))
            belongTo(micro, builder.clone(*operations[i], maps[micro]));
      for (size_t i = begin; i < end; ++i)
        belongTo(0, operations[i]);
      begin = end;
    }
    for (OpOperand &operand : exit->getOpOperands())
      operand.set(maps.back().lookupOrDefault(operand.get()));
  }

private:
  /// Inputs stand micro-step after micro-step.
  void addInputs() {
    Block &block = program.getBlock();
    SmallVector<BlockArgument> first(block.getArguments());
    SmallVector<Attribute> names(program.getInputNames().getValue()), all = names;
    for (size_t micro = 1; micro < maps.size(); ++micro) {
      for (BlockArgument argument : first)
        maps[micro].map(argument, block.addArgument(argument.getType(), argument.getLoc()));
      all.append(names);
    }
    program.setInputNamesAttr(ArrayAttr::get(program.getContext(), all));
    if (std::optional<ArrayAttr> ranges = program.getInputRanges()) {
      SmallVector<Attribute> repeated;
      for (size_t micro = 0; micro < maps.size(); ++micro)
        repeated.append(ranges->begin(), ranges->end());
      program.setInputRangesAttr(ArrayAttr::get(program.getContext(), repeated));
    }
  }

  /// Cuts between blocks, of forward and of backward, the border, and the end.
  static std::vector<size_t> endsOfSegments(ArrayRef<Operation *> operations, size_t forward) {
    std::vector<size_t> ends = streamCuts(operations, 0, forward);
    ends.push_back(forward);
    for (size_t cut : streamCuts(operations, forward, operations.size()))
      ends.push_back(cut);
    if (ends.back() != operations.size())
      ends.push_back(operations.size());
    return ends;
  }

  /// Nothing in a micro-step changes it.
  static bool isShared(Operation *op) { return graph::isFreeToRecompute(op) && op->getNumOperands() == 0; }

  static void belongTo(size_t micro, Operation *op) {
    if (auto reduce = dyn_cast<zero::ReduceScatterOp>(op))
      reduce.setAccumulate(micro > 0);
    if (auto scheduled = dyn_cast<zero::ScheduledOp>(op); scheduled && scheduled.dependsOnMicroStep())
      zero::setMicroStep(op, static_cast<int64_t>(micro));
  }

  graph::ProgramOp program;
  graph::ReturnOp exit;
  std::vector<IRMapping> maps; ///< of each micro-step; the first's is empty
};

struct ZeroVerticalPass : StagePass<impl::ZeroVerticalBase<ZeroVerticalPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    zero::Execution execution = zero::executionOf(module);
    const int64_t accumulation = execution.accumulation;
    if (accumulation < 2)
      return;
    if (execution.vertical) {
      module.emitError("zero-vertical comes once: the micro-steps stand there already");
      return signalPassFailure();
    }
    for (auto program : module.getOps<graph::ProgramOp>()) {
      if (program.getPhase() != graph::Phase::micro)
        continue;
      // Running statistics go from a micro-step's end to the next one's begin.
      if (!program.getBlock().getOps<graph::AssignOp>().empty()) {
        module.emitWarning("micro-steps run one after the other: running statistics pass from one to the next");
        return;
      }
      if (auto operations = static_cast<int64_t>(program.getBlock().getOperations().size());
          operations > options.verticalMost / accumulation) {
        module.emitError("block by block, ")
            << accumulation << " micro-steps of " << operations << " operations are more than " << options.verticalMost
            << ": --micro-order rolled";
        return signalPassFailure();
      }
      Unroller(program, accumulation).run();
    }
    execution.vertical = true;
    zero::setExecution(module, execution);
  }
};

} // namespace

std::unique_ptr<Pass> createZeroVertical(const ShardOptions &options) {
  return std::make_unique<ZeroVerticalPass>(options);
}

} // namespace zc
