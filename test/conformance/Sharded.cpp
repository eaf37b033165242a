#include "test/conformance/Sharded.h"
#include "compiler/emit/Report.h"
#include "compiler/grad/Passes.h"
#include "compiler/schedule/Passes.h"
#include "compiler/shard/Passes.h"
#include "dialects/graph/KernelSpec.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/plan/PlanProto.h"
#include "dialects/zero/Zero.h"
#include "runtime/exec/Job.h"
#include "runtime/exec/PrepareRank.h"
#include "runtime/plan/Verify.h"
#include "runtime/train/Weights.h"

#include "mlir/Pass/PassManager.h"

#include <cstring>

using namespace zc;
using namespace zc::test;

namespace {

constexpr int worldSize = 2;

/// What turns a forward graph into a training step of which the outputs can be read: they are assigned to buffers, and
/// the loss is that of a parameter which has nothing to do with them.
class TrainingStep {
public:
  explicit TrainingStep(mlir::ModuleOp module)
      : module(module), builder(module.getContext()), program(*module.getOps<graph::ProgramOp>().begin()) {}

  void build() {
    builder.setInsertionPoint(program);
    auto weights = mlir::RankedTensorType::get({1000}, builder.getF32Type());
    declare("probe", weights, graph::Role::trainable);
    mlir::Operation *exit = program.getBlock().getTerminator();
    for (auto [k, value] : llvm::enumerate(exit->getOperands())) {
      std::string name = "out." + std::to_string(k);
      builder.setInsertionPoint(program);
      declare(name, mlir::cast<mlir::RankedTensorType>(value.getType()), graph::Role::buffer);
      builder.setInsertionPoint(exit);
      builder.create<graph::AssignOp>(exit->getLoc(), name, value);
    }
    builder.setInsertionPoint(exit);
    auto loc = exit->getLoc();
    mlir::Value w = builder.create<graph::ReadOp>(loc, weights, "probe");
    mlir::Value square = builder.create<graph::MulOp>(loc, w, w);
    mlir::Value loss = builder.create<graph::ReduceSumOp>(loc, square, llvm::ArrayRef<int64_t>{0}, /*keepdims=*/false);
    exit->setOperands(loss);
    graph::Model model = graph::modelOf(module);
    model.name = "node-test";
    graph::setModel(module, model);
    graph::Training training;
    training.seed = 7;
    training.optimizer.emplace().rule = zc::UpdateRule::sgd;
    graph::setTraining(module, training);
  }

private:
  void declare(const std::string &name, mlir::RankedTensorType type, graph::Role role) {
    mlir::OperationState state(module.getLoc(), graph::ParameterOp::getOperationName());
    state.addAttribute("sym_name", builder.getStringAttr(name));
    state.addAttribute("type", mlir::TypeAttr::get(type));
    state.addAttribute("role", graph::RoleAttr::get(module.getContext(), role));
    mlir::Attribute zero = mlir::isa<mlir::FloatType>(type.getElementType())
                               ? mlir::Attribute(builder.getFloatAttr(type.getElementType(), 0))
                               : mlir::Attribute(builder.getIntegerAttr(type.getElementType(), 0));
    state.addAttribute("value", mlir::DenseElementsAttr::get(type, zero));
    builder.create(state);
  }

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  graph::ProgramOp program;
};

Result<planpb::Plan> compileStep(mlir::ModuleOp module) {
  mlir::MLIRContext *context = module.getContext();
  context->loadDialect<zero::ZeroDialect, plan::PlanDialect>();
  std::string diagnostic;
  mlir::ScopedDiagnosticHandler handler(context, [&](mlir::Diagnostic &d) {
    if (d.getSeverity() == mlir::DiagnosticSeverity::Error)
      diagnostic = d.str();
    return mlir::success();
  });
  TrainingStep(module).build();
  mlir::PassManager manager(context);
  GradStage grad;
  grad.update.rule = UpdateRule::sgd;
  buildGradPipeline(manager, grad);
  ShardOptions shard;
  shard.worldSize = worldSize;
  shard.stage = 3;
  buildShardPipeline(manager, shard);
  buildSchedulePipeline(manager, ScheduleOptions());
  buildPlanPipeline(manager, {});
  if (mlir::failed(manager.run(module)))
    return makeError(Code::internal, 0, "does not compile to a plan: " + diagnostic);
  auto plan = plan::toProto(module);
  if (mlir::failed(plan))
    return makeError(Code::internal, 0, "has no plan: " + diagnostic);
  fillReport(*plan, Budgets());
  ZC_RETURN_IF_ERROR(verifyPlan(*plan));
  return std::move(*plan);
}

class Inputs : public InputLoader {
public:
  Inputs(const planpb::Plan &plan, const std::vector<NodeValue> &values) : plan(plan), values(values) {}
  Status load(uint32_t input, const StepContext &, void *destination, uint64_t bytes) override {
    const std::string &name = plan.inputs(static_cast<int>(input)).name();
    for (const NodeValue &value : values)
      if (value.name == name && value.bytes.size() == bytes)
        return std::memcpy(destination, value.bytes.data(), bytes), Status::success();
    return makeError(Code::internal, 0, "no bytes for input " + name);
  }

private:
  const planpb::Plan &plan;
  const std::vector<NodeValue> &values;
};

/// One step; what the output buffers hold then.
Result<std::vector<NodeValue>> runRank(const planpb::Plan &plan, const std::vector<NodeValue> &inputs,
                                       Communicator &communicator) {
  KernelRegistry registry;
  registerCpuKernels(registry);
  Inputs loader(plan, inputs);
  auto executor = prepareRank(plan, ExecutorOptions(), communicator, registry, loader);
  if (!executor.ok())
    return executor.error();
  auto weights = train::InitialValues::fromModel(plan);
  if (!weights.ok())
    return weights.error();
  ZC_RETURN_IF_ERROR(train::loadWeights(**executor, *weights));
  StepContext context;
  context.learningRate = 0.1;
  ZC_RETURN_IF_ERROR((*executor)->runStep(context));
  ZC_RETURN_IF_ERROR((*executor)->drain());
  std::vector<NodeValue> outputs;
  for (const planpb::Parameter &parameter : plan.parameters()) {
    if (parameter.name().rfind("out.", 0) != 0)
      continue;
    TensorType type = train::typeOf(plan, parameter);
    std::vector<char> bytes(type.numBytes());
    ZC_RETURN_IF_ERROR((*executor)->readSlice(static_cast<uint32_t>(parameter.slice()), 0, bytes.data(), bytes.size()));
    size_t index = std::stoul(parameter.name().substr(4));
    outputs.resize(std::max(outputs.size(), index + 1));
    outputs[index] = {"", type.dtype, type.dims, std::move(bytes)};
  }
  return outputs;
}

} // namespace

Result<std::vector<std::vector<NodeValue>>> test::runSharded(mlir::ModuleOp module,
                                                             const std::vector<NodeValue> &inputs) {
  auto plan = compileStep(module);
  if (!plan.ok())
    return plan.error();
  std::vector<std::vector<NodeValue>> results(worldSize);
  ZC_RETURN_IF_ERROR(runJob(Mesh::ofNodes(worldSize, worldSize), [&](Communicator &communicator) -> Status {
    auto outputs = runRank(*plan, inputs, communicator);
    if (outputs.ok())
      results[communicator.rank()] = std::move(*outputs);
    return outputs.status();
  }));
  return results;
}
