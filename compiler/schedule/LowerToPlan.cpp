//===- LowerToPlan.cpp - operations become steps with waits ---------------------------------===//

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/StepBuilder.h"
#include "compiler/schedule/ThreadShares.h"
#include "dialects/plan/Execution.h"
#include "dialects/plan/PlanProto.h"
#include "dialects/zero/Execution.h"
#include "runtime/plan/Walk.h"

namespace zc {
#define GEN_PASS_DEF_LOWERTOPLAN
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

struct LowerToPlanPass : impl::LowerToPlanBase<LowerToPlanPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<graph::ProgramOp> programs(module.getOps<graph::ProgramOp>());
    if (!llvm::all_of(programs, arePlaced))
      return signalPassFailure();
    StepBuilder builder(module);
    std::array<plan::SectionOp, 3> sections;
    for (graph::ProgramOp program : programs) {
      FailureOr<plan::SectionOp> section = builder.lowerProgram(program);
      if (failed(section))
        return signalPassFailure();
      sections[static_cast<size_t>(program.getPhase())] = *section;
    }
    if (!sections[0] || !sections[1]) {
      module.emitError("lower-to-plan needs a micro and an update program");
      return signalPassFailure();
    }
    lowerDeclarations();
    recordExecution();
    for (graph::ProgramOp program : programs)
      program.erase();
    if (failed(completeMessage(sections)))
      return signalPassFailure();
    getOperation().walk([&](plan::StepOp step) {
      ++numSteps;
      numWaits += step.getWaits().size();
    });
  }

  /// Is it known of all values where they are?
  static bool arePlaced(graph::ProgramOp program) {
    auto isPlaced = [](Operation *op, StringRef attribute, size_t values) {
      auto places = op->getAttrOfType<ArrayAttr>(attribute);
      return values == 0 || (places && places.size() == values &&
                             llvm::all_of(places, [](Attribute place) { return isa<plan::OperandAttr>(place); }));
    };
    const bool hasInputs = program->hasAttr(placement::kInputs) &&
                           isPlaced(program, placement::kInputs, program.getBlock().getNumArguments());
    Operation *lost = hasInputs ? nullptr : program;
    for (Operation &op : program.getBlock())
      if (!lost && !isPlaced(&op, placement::kResults, op.getNumResults()))
        lost = &op;
    if (lost)
      lost->emitError("lower-to-plan needs what plan-memory leaves: the place of each value");
    return !lost;
  }

  /// Waits are computed on the message, by the code that the verifier and the plan loader run too; shares of threads by
  /// playing it.
  LogicalResult completeMessage(std::array<plan::SectionOp, 3> sections) {
    FailureOr<planpb::Plan> message = plan::toProto(getOperation(), /*nodes=*/false);
    if (failed(message))
      return failure();
    if (Status status = zc::addWaits(*message); !status.ok())
      return getOperation().emitError(status.error().message) << " (" << status.error().where << ")";
    auto assign = [&](plan::SectionOp section, const planpb::Section &steps) {
      for (auto [step, described] : llvm::zip(section.getBody().front().getOps<plan::StepOp>(), steps.steps()))
        step.setWaitsAttr(plan::waitsOf(getContext(), described));
    };
    assign(sections[0], message->micro());
    assign(sections[1], message->update());
    if (sections[2])
      assign(sections[2], message->eval());
    divideThreads(*message);
    OpBuilder builder(sections[0]);
    for (const planpb::ThreadShare &share : message->thread_shares())
      builder.create<plan::ShareOp>(getOperation().getLoc(),
                                    plan::QueueAttr::get(&getContext(), static_cast<plan::Queue>(share.queue())),
                                    builder.getI64IntegerAttr(share.thousandths()));
    return success();
  }

  /// The execution in the plan's words.
  void recordExecution() {
    ModuleOp module = getOperation();
    const zero::Execution from = zero::executionOf(module);
    plan::Execution execution;
    execution.zeroStage = from.stage;
    execution.accumulation = from.accumulation;
    execution.vertical = from.vertical;
    execution.delayAfter = from.delayAfter;
    for (auto program : module.getOps<graph::ProgramOp>())
      if (program.getPhase() != graph::Phase::eval) // of a step
        program.walk([&](graph::KernelOp op) { execution.flops += graph::isView(op) ? 0 : op.getFlops(); });
    execution.flops *= static_cast<double>(zero::microExecutionsOf(module));
    plan::setExecution(module, execution);
    module->removeAttr(zero::ExecutionAttr::name);
  }

  static graph::IndexRangeAttr rangeOf(graph::ProgramOp program, size_t input) {
    auto range = program.getInputRanges() ? cast<graph::IndexRangeAttr>((*program.getInputRanges())[input])
                                          : graph::IndexRangeAttr();
    return range && range.getRange().isKnown() ? range : graph::IndexRangeAttr();
  }

  /// Inputs, parameters, buckets and the mesh, in the plan's words.
  void lowerDeclarations() {
    ModuleOp module = getOperation();
    const Mesh mesh = zero::meshOf(module); // before there is anything else at the top
    OpBuilder builder(module.getContext());
    builder.setInsertionPoint(&module.getBody()->front());
    for (auto program : module.getOps<graph::ProgramOp>()) {
      if (program.getPhase() == graph::Phase::eval) // it has those of the micro-step
        continue;
      size_t inputs = program.getInputNames().size() / static_cast<size_t>(zero::microStepsOf(module));
      for (size_t i = 0; i < inputs; ++i)
        builder.create<plan::InputOp>(program.getLoc(), cast<StringAttr>(program.getInputNames()[i]),
                                      TypeAttr::get(program.getBlock().getArgument(unsigned(i)).getType()),
                                      rangeOf(program, i));
    }
    for (auto program : module.getOps<graph::ProgramOp>())
      for (auto output : program.getOps<graph::OutputOp>()) // in the order of their steps
        builder.create<plan::OutputOp>(output.getLoc(), output.getNameAttr(),
                                       TypeAttr::get(output.getValue().getType()), output.getKindAttr(),
                                       output.getLikelihoodAttr(), output.getByLabelsAttr());
    llvm::StringMap<std::pair<zero::BucketOp, int64_t>> places;
    for (auto bucket : llvm::make_early_inc_range(module.getOps<zero::BucketOp>())) {
      for (auto member : bucket.getMembers().getAsRange<zero::MemberAttr>())
        places[member.getParameter().getValue()] = {bucket, member.getOffset()};
      lowerBucket(bucket, mesh);
    }
    for (auto parameter : llvm::make_early_inc_range(module.getOps<graph::ParameterOp>()))
      lowerParameter(parameter, places);
    for (auto bucket : llvm::make_early_inc_range(module.getOps<zero::BucketOp>()))
      bucket.erase();
    for (auto declared : llvm::make_early_inc_range(module.getOps<zero::MeshOp>())) {
      lowerMesh(builder, declared);
      declared.erase();
    }
  }

  static void lowerMesh(OpBuilder &builder, zero::MeshOp mesh) {
    SmallVector<Attribute> axes;
    for (auto axis : mesh.getAxes().getAsRange<zero::MeshAxisAttr>())
      axes.push_back(plan::MeshAxisAttr::get(builder.getContext(), axis.getName(), axis.getSize(),
                                             static_cast<plan::AxisKind>(axis.getKind())));
    builder.create<plan::MeshOp>(mesh.getLoc(), builder.getArrayAttr(axes));
  }

  static void lowerBucket(zero::BucketOp bucket, const Mesh &mesh) {
    OpBuilder builder(bucket);
    ArrayAttr axes = zero::namesOf(bucket.getContext(), zero::axesOf(bucket.getAxesAttr(), mesh), mesh);
    auto storage = [&](zero::Storage what) { return placement::storageOf(bucket, what); };
    auto flag = [&](bool set) { return set ? builder.getUnitAttr() : UnitAttr(); };
    std::string name = bucket.getSymName().str();
    bucket.setSymName(name + ".zero");
    builder.create<plan::BucketOp>(
        bucket.getLoc(), builder.getStringAttr(name), TypeAttr::get(bucket.getType()), bucket.getPaddedAttr(),
        builder.getI64IntegerAttr(bucket.getUsed()), storage(zero::Storage::parameters),
        storage(zero::Storage::gradients), storage(zero::Storage::master), storage(zero::Storage::moment1),
        storage(zero::Storage::moment2), storage(zero::Storage::residual1), storage(zero::Storage::residual2),
        flag(bucket.getTrainable()), flag(bucket.getParametersSharded()), flag(bucket.getGradientsSharded()),
        flag(bucket.getOptimizerSharded()), bucket.getGradientTypeAttr(), axes);
  }

  static void lowerParameter(graph::ParameterOp parameter,
                             const llvm::StringMap<std::pair<zero::BucketOp, int64_t>> &places) {
    OpBuilder builder(parameter);
    auto place = places.find(parameter.getSymName());
    auto slice = placement::sliceOf(parameter);
    FlatSymbolRefAttr bucket;
    IntegerAttr offset;
    if (place != places.end()) {
      zero::BucketOp owner = place->second.first;
      bucket = FlatSymbolRefAttr::get(builder.getContext(), owner.getSymName().drop_back(strlen(".zero")));
      offset = builder.getI64IntegerAttr(place->second.second);
    }
    if (bucket || slice)
      builder.create<plan::ParameterOp>(
          parameter.getLoc(), parameter.getSymNameAttr(), parameter.getTypeAttr(), parameter.getRoleAttr(), bucket,
          offset, slice, parameter.getSourceAttr(), parameter.getValueAttr(), parameter.getTiedAttr(),
          parameter.getPartAttr(), parameter.getCutAttr(), parameter.getLrScaleAttr(), parameter.getWeightDecayAttr());
    parameter.erase();
  }
};

} // namespace
} // namespace zc
