#include "test/support/Interpreter.h"
#include "dialects/graph/KernelSpec.h"
#include "test/support/ModelAxis.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace zc::graph;

namespace zc::test {

/// At least one byte, so that an empty tensor has an address.
static Bytes allocate(mlir::Value value) {
  return Bytes(std::max<int64_t>(1, toTensorType(value.getType())->numBytes()));
}

static Error failed(const std::string &what) { return makeError(Code::internal, 0, what); }

Result<Interpreter> Interpreter::prepare(mlir::ModuleOp module, const KernelRegistry &registry, int modelRank) {
  Interpreter self;
  for (auto program : module.getOps<ProgramOp>())
    if (program.getPhase() == Phase::micro)
      self.program = program;
  if (!self.program)
    return failed("no program of phase micro");
  for (mlir::Operation &op : self.program.getBlock()) {
    Step step{&op, nullptr, nullptr};
    auto kernel = mlir::dyn_cast<KernelOp>(op);
    if (kernel && kernel.getViewOperand() < 0 && !isOfModelAxis(&op)) {
      mlir::FailureOr<KernelSpec> spec = toKernelSpec(&op);
      if (mlir::failed(spec))
        return failed("no kernel spec for " + op.getName().getStringRef().str());
      spec->modelRank = modelRank;
      spec->workspace = kernel.getWorkspaceBytes(registry.target());
      step.workspace = std::make_unique<Block[]>(size_t(spec->workspace + 63) / 64);
      auto prepared = registry.prepare(*spec);
      if (!prepared)
        return prepared.error();
      step.kernel = std::move(*prepared);
    }
    for (mlir::Value result : op.getResults())
      self.values[result] = allocate(result);
    self.steps.push_back(std::move(step));
  }
  return self;
}

Status Interpreter::runKernel(const Step &step, const StepContext &context) {
  std::vector<void *> operands;
  for (mlir::Value operand : step.op->getOperands())
    operands.push_back(values[operand].data());
  for (mlir::Value result : step.op->getResults())
    operands.push_back(values[result].data());
  operands.push_back(step.workspace.get());
  return step.kernel->run(operands.data(), context);
}

Status Interpreter::runStructural(mlir::Operation *op) {
  return llvm::TypeSwitch<mlir::Operation *, Status>(op)
      .Case([&](ReadOp read) -> Status {
        const Bytes &bytes = parameters[read.getParameter().str()];
        if (bytes.size() != values[read.getResult()].size())
          return failed("parameter " + read.getParameter().str() + " has no value of its size");
        values[read.getResult()] = bytes;
        return {};
      })
      .Case([&](AssignOp assign) -> Status {
        parameters[assign.getParameter().str()] = values[assign.getValue()];
        return {};
      })
      .Case([&](AccumulateGradOp accumulate) -> Status {
        gradients[accumulate.getParameter().str()] = values[accumulate.getGrad()];
        return {};
      })
      .Case([](BackwardOp) -> Status { return {}; })
      .Case([&](ReturnOp exit) -> Status {
        results.clear();
        for (mlir::Value value : exit.getResults())
          results.push_back(values[value]);
        return {};
      })
      .Case([&](KernelOp view) -> Status {
        values[op->getResult(0)] = values[op->getOperand(view.getViewOperand())];
        return {};
      })
      .Default([&](mlir::Operation *) -> Status { return failed("cannot run " + op->getName().getStringRef().str()); });
}

Status Interpreter::setInputs() {
  mlir::Block &block = program.getBlock();
  for (auto [argument, name] : llvm::zip(block.getArguments(), program.getInputNames())) {
    values[argument] = inputs[mlir::cast<mlir::StringAttr>(name).str()];
    if (values[argument].size() != allocate(argument).size())
      return failed("input " + mlir::cast<mlir::StringAttr>(name).str() + " has no value of its size");
  }
  return {};
}

Status Interpreter::run(const StepContext &context) {
  ZC_RETURN_IF_ERROR(setInputs());
  for (const Step &step : steps)
    ZC_RETURN_IF_ERROR(runStep(step, context));
  return {};
}

Status Interpreter::runRanks(std::deque<Interpreter> &ranks, const StepContext &context) {
  for (Interpreter &rank : ranks)
    ZC_RETURN_IF_ERROR(rank.setInputs());
  for (size_t i = 0; i < ranks.front().steps.size(); ++i) {
    mlir::Operation *op = ranks.front().steps[i].op;
    if (!isOfModelAxis(op)) {
      for (Interpreter &rank : ranks)
        ZC_RETURN_IF_ERROR(rank.runStep(rank.steps[i], context));
      continue;
    }
    std::vector<const Bytes *> operands;
    std::vector<Bytes *> results;
    for (Interpreter &rank : ranks) {
      operands.push_back(op->getNumOperands() ? &rank.values[op->getOperand(0)] : nullptr);
      results.push_back(&rank.values[op->getResult(0)]);
    }
    runOnModelAxis(op, operands, results);
  }
  return {};
}

} // namespace zc::test
