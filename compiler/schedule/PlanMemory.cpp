//===- PlanMemory.cpp - static offsets from lifetimes ------------------------------------===//

#include "compiler/schedule/Lifetimes.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Placement.h"

namespace zc {
#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

struct PlanMemoryPass : impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    builder.emplace(&getContext());
    builder->setInsertionPointToStart(module.getBody());
    arena = builder->create<plan::ArenaOp>(module.getLoc(), builder->getStringAttr("device"),
                                           plan::TierAttr::get(&getContext(), plan::Tier::device),
                                           builder->getI64IntegerAttr(0));
    placePersistent();
    for (auto program : module.getOps<graph::ProgramOp>())
      if (failed(placeProgram(program)))
        return signalPassFailure();
    arena.setBytes(peak);
    if (deviceMemory > 0 && peak > deviceMemory) {
      reportShortfall();
      return signalPassFailure();
    }
  }

private:
  //===-- what outlives the step --------------------------------------------===//

  FlatSymbolRefAttr persistentSlice(Location loc, const Twine &name, int64_t bytes, plan::Class klass) {
    FlatSymbolRefAttr slice = makeSlice(loc, name, end, bytes, klass, /*persistent=*/true);
    end += alignToArena(bytes);
    peak = std::max(peak, end);
    return slice;
  }

  FlatSymbolRefAttr makeSlice(Location loc, const Twine &name, int64_t offset, int64_t bytes, plan::Class klass,
                              bool persistent) {
    auto slice = builder->create<plan::SliceOp>(loc, builder->getStringAttr(name), FlatSymbolRefAttr::get(arena),
                                                builder->getI64IntegerAttr(offset), builder->getI64IntegerAttr(bytes),
                                                plan::ClassAttr::get(&getContext(), klass),
                                                persistent ? builder->getUnitAttr() : UnitAttr());
    return FlatSymbolRefAttr::get(slice.getSymNameAttr());
  }

  void placePersistent() {
    ModuleOp module = getOperation();
    llvm::StringMap<graph::Optimizer> rules;
    module.walk([&](zero::UpdateOp update) { rules[update.getBucket()] = update.getRule(); });
    for (auto mesh : module.getOps<zero::MeshOp>())
      worldSize = mesh.getWorldSize();
    for (auto bucket : module.getOps<zero::BucketOp>())
      placeBucket(bucket, rules);
    for (auto parameter : module.getOps<graph::ParameterOp>())
      if (parameter.getRole() == graph::Role::buffer)
        parameter->setAttr("plan.slice",
                           persistentSlice(parameter.getLoc(), "buffer." + parameter.getSymName(),
                                           placement::bytesOf(cast<RankedTensorType>(parameter.getType())),
                                           plan::Class::buffers));
    lossSlice = persistentSlice(module.getLoc(), placement::kLossSlice, 8, plan::Class::buffers);
    normSlice = persistentSlice(module.getLoc(), placement::kNormSlice, 4, plan::Class::buffers);
  }

  void placeBucket(zero::BucketOp bucket, const llvm::StringMap<graph::Optimizer> &rules) {
    auto place = [&](StringRef what, int64_t bytesPerElement, bool sharded, plan::Class klass) {
      int64_t elements = sharded ? bucket.getPadded() / worldSize : bucket.getPadded();
      bucket->setAttr(("plan." + what).str(), persistentSlice(bucket.getLoc(), bucket.getSymName() + "." + what,
                                                              elements * bytesPerElement, klass));
    };
    int64_t bytes = placement::bytesOfElement(bucket.getType());
    place("parameters", bytes, bucket.getParametersSharded(), plan::Class::parameters);
    if (!bucket.getTrainable())
      return;
    place("gradients", bytes, bucket.getGradientsSharded(), plan::Class::gradients);
    auto rule = rules.find(bucket.getSymName());
    if (rule == rules.end())
      return;
    if (!bucket.getType().isF32())
      place("master", 4, bucket.getOptimizerSharded(), plan::Class::optimizer);
    for (unsigned i = 0; i < placement::numMoments(rule->second); ++i)
      place("moment" + std::to_string(i + 1), 4, bucket.getOptimizerSharded(), plan::Class::optimizer);
  }

  //===-- what lives inside a program ---------------------------------------===//

  LogicalResult placeProgram(graph::ProgramOp program) {
    Lifetimes lifetimes(program, lossSlice, normSlice);
    MemoryProblem problem;
    for (const Lifetimes::Root &root : lifetimes.roots)
      if (!root.slice)
        problem.requests.push_back({"", root.bytes, root.first, root.last});
    std::string error;
    if (failed(problem.check(error)))
      return program.emitError("unsound memory problem: ") << error;
    placeBySize(problem);
    if (failed(problem.verify(error)))
      return program.emitError("illegal memory plan: ") << error;
    if (end + problem.peak() > peak) {
      peak = end + problem.peak();
      int64_t position = 0;
      problem.lowerBound(&position);
      peakOperation = lifetimes.operationAt(position);
    }
    auto bound = builder->getI64IntegerAttr(end + problem.lowerBound());
    program->setAttr("zc.live_bytes", bound); // what no plan could be below: reported, and tested against the peak
    size_t next = 0;
    for (Lifetimes::Root &root : lifetimes.roots)
      if (!root.slice)
        root.slice =
            makeSlice(root.loc, "s" + Twine(numSlices++), end + problem.offsets[next++], root.bytes, root.klass,
                      /*persistent=*/false);
    annotate(program, lifetimes);
    return success();
  }

  void annotate(graph::ProgramOp program, const Lifetimes &lifetimes) {
    auto operandOf = [&](Value value) -> Attribute {
      const Lifetimes::Place &place = lifetimes.places.at(value);
      return plan::OperandAttr::get(&getContext(), plan::Access::write, lifetimes.roots[place.root].slice, place.offset,
                                    0, placement::storedType(value.getType()));
    };
    SmallVector<Attribute> inputs;
    for (BlockArgument argument : program.getBlock().getArguments())
      inputs.push_back(operandOf(argument));
    program->setAttr(placement::kInputs, builder->getArrayAttr(inputs));
    for (Operation &op : program.getBlock()) {
      SmallVector<Attribute> results;
      for (Value result : op.getResults())
        results.push_back(operandOf(result));
      if (!results.empty())
        op.setAttr(placement::kResults, builder->getArrayAttr(results));
    }
  }

  void reportShortfall() {
    Location loc = peakOperation ? peakOperation->getLoc() : getOperation().getLoc();
    // The numbers travel as attributes too, for the tool's exit code and message.
    getOperation()->setAttr("zc.device_needed", builder->getI64IntegerAttr(peak));
    emitError(loc) << "the plan needs " << peak << " bytes but --device-mem allows " << deviceMemory.getValue();
  }

  std::optional<OpBuilder> builder;
  plan::ArenaOp arena;
  FlatSymbolRefAttr lossSlice, normSlice;
  Operation *peakOperation = nullptr;
  int64_t worldSize = 1;
  int64_t end = 0;  ///< of what outlives the step
  int64_t peak = 0; ///< of the arena
  int64_t numSlices = 0;
};

} // namespace
} // namespace zc
