//===- Order.cpp - the order of the operations becomes the order of their starts -----------===//

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleProblem.h"
#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"

#include <algorithm>
#include <numeric>

namespace zc {
#define GEN_PASS_DEF_ORDER
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// The schedule problem of one program.
class ProgramProblem {
public:
  explicit ProgramProblem(graph::ProgramOp program) : phase(program.getPhase()) {
    for (Operation &op : program.getBlock().without_terminator())
      add(&op);
  }

  ScheduleProblem problem;
  std::vector<Operation *> operations;

private:
  void add(Operation *op) {
    size_t index = operations.size();
    indices[op] = index;
    operations.push_back(op);
    ScheduledOperation scheduled;
    scheduled.name = op->getName().getStringRef().str();
    auto queue = op->getAttrOfType<plan::QueueAttr>("plan.queue");
    scheduled.queue = queue ? static_cast<unsigned>(queue.getValue()) : 0;
    if (auto seconds = op->getAttrOfType<FloatAttr>("plan.seconds"))
      scheduled.seconds = seconds.getValueAsDouble();
    auto follow = [&](Operation *earlier) {
      if (auto found = indices.find(earlier); found != indices.end())
        scheduled.after.push_back(found->second);
    };
    for (Value operand : op->getOperands())
      follow(operand.getDefiningOp());
    addMemoryOrder(op, index, follow);
    if (isa<zero::GatherOp>(op) && lastCompute)
      follow(lastCompute); // not ahead of where prefetch put it
    if (scheduled.queue == 0)
      lastCompute = op;
    problem.operations.push_back(std::move(scheduled));
  }

  /// What SSA does not say: a buffer ends after its users, and storage is touched in the order written.
  void addMemoryOrder(Operation *op, size_t index, llvm::function_ref<void(Operation *)> follow) {
    bool ends = isa<zero::ReleaseOp, zero::ReduceScatterOp>(op);
    for (Value operand : op->getOperands()) {
      if (!isa<zero::BufferType>(operand.getType()))
        continue;
      for (Operation *user : buffers[operand])
        if (ends)
          follow(user);
      buffers[operand].push_back(op);
    }
    // Users of views of a buffer count as users of the buffer.
    for (Value operand : op->getOperands())
      if (Value buffer = bufferBehind(operand))
        buffers[buffer].push_back(op);
    if (phase == graph::Phase::micro)
      return; // parameters are only read, each gradient is reduced once
    if (auto bucket = op->getAttrOfType<FlatSymbolRefAttr>("bucket")) {
      auto [last, isNew] = lastOfBucket.try_emplace(bucket, op);
      if (!isNew) {
        follow(last->second);
        last->second = op;
      }
    }
  }

  static Value bufferBehind(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (auto view = dyn_cast<zero::ViewOp>(op))
        return view.getBuffer();
      auto kernel = dyn_cast<graph::KernelOp>(op);
      if (!kernel || kernel.getViewOperand() < 0)
        return {};
      value = op->getOperand(kernel.getViewOperand());
    }
    return {};
  }

  graph::Phase phase;
  DenseMap<Operation *, size_t> indices;
  DenseMap<Value, SmallVector<Operation *>> buffers; ///< users of a buffer so far
  DenseMap<Attribute, Operation *> lastOfBucket;
  Operation *lastCompute = nullptr;
};

struct OrderPass : impl::OrderBase<OrderPass> {
  void runOnOperation() override {
    double seconds = 0;
    int64_t accumulation = 1;
    if (auto attr = getOperation()->getAttrOfType<IntegerAttr>("zc.accumulation"))
      accumulation = attr.getInt();
    for (auto program : getOperation().getOps<graph::ProgramOp>()) {
      double makespan = 0;
      if (failed(orderProgram(program, makespan)))
        return signalPassFailure();
      seconds += makespan * static_cast<double>(program.getPhase() == graph::Phase::micro ? accumulation : 1);
    }
    getOperation()->setAttr("zc.predicted_seconds", FloatAttr::get(Float64Type::get(&getContext()), seconds));
  }

  static LogicalResult orderProgram(graph::ProgramOp program, double &makespan) {
    ProgramProblem instance(program);
    ScheduleProblem &problem = instance.problem;
    problem.numQueues = plan::getMaxEnumValForQueue() + 1;
    std::string error;
    if (failed(problem.check(error)))
      return program.emitError("unsound schedule problem: ") << error;
    scheduleAsList(problem, static_cast<unsigned>(plan::Queue::compute));
    if (failed(problem.verify(error)))
      return program.emitError("illegal schedule: ") << error;
    makespan = problem.makespan();
    std::vector<size_t> order(instance.operations.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return problem.starts[a] < problem.starts[b]; });
    for (size_t index : order)
      instance.operations[index]->moveBefore(program.getBlock().getTerminator());
    return success();
  }
};

} // namespace
} // namespace zc
