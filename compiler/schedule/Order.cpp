//===- Order.cpp - the order of the operations becomes the order of their starts -----------===//

#include "compiler/schedule/EvictionWindow.h"
#include "compiler/schedule/MemoryUse.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/Publishing.h"
#include "compiler/schedule/QueueAssignment.h"
#include "compiler/schedule/ScheduleProblem.h"
#include "compiler/schedule/Touches.h"
#include "dialects/zero/Zero.h"

#include <algorithm>
#include <numeric>

namespace zc {
#define GEN_PASS_DEF_ORDER
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// Addresses take no queue's time: nothing is to wait for its turn on one because of them. Where memory is short they
/// stay with compute, which then waits for slots of the staging instead of piling up what is to leave through them.
constexpr unsigned kAddresses = plan::getMaxEnumValForQueue() + 1, kQueues = kAddresses + 1;

/// The schedule problem of one program.
class ProgramProblem {
public:
  ProgramProblem(graph::ProgramOp program, bool overlap) : overlap(overlap), publishing(publishingOperations(program)) {
    boundEvictions(program.getBlock(),
                   [&](Operation *compute, Operation *evict) { leaving[compute].push_back(evict); });
    for (Operation &op : program.getBlock().without_terminator())
      add(&op);
  }

  ScheduleProblem problem;
  std::vector<Operation *> operations;

private:
  const bool overlap;

  void add(Operation *op) {
    size_t index = operations.size();
    indices[op] = index;
    operations.push_back(op);
    ScheduledOperation scheduled;
    scheduled.name = op->getName().getStringRef();
    scheduled.queue = queueOf(op);
    scheduled.seconds = assignedSeconds(op);
    scheduled.isUrgent = graph::isCollective(op); // compute waits for it, not for what is prefetched
    auto follow = [&](Operation *earlier) {
      if (auto found = indices.find(earlier); found != indices.end())
        scheduled.after.push_back(found->second);
    };
    for (Value operand : op->getOperands())
      follow(operand.getDefiningOp());
    addMemoryOrder(op, follow);
    if (fillsDevice(op) && lastCompute)
      follow(lastCompute); // not ahead of where prefetch put it
    for (Operation *evict : leaving.lookup(op))
      follow(evict);
    if (scheduled.queue == 0)
      lastCompute = op;
    publishFirst(op, scheduled.queue, follow);
    problem.operations.push_back(std::move(scheduled));
  }

  /// The next forward waits for what a delayed update publishes, nobody for the update: it gets no turn before. Only
  /// the norm and the loss, which the update and the caller wait for, are summed as soon as they can be.
  void publishFirst(Operation *op, unsigned queue, llvm::function_ref<void(Operation *)> follow) {
    if (publishing.contains(op))
      lastPublishing[queue] = op;
    else if (queue != static_cast<unsigned>(plan::Queue::comm) && lastPublishing[queue])
      follow(lastPublishing[queue]);
  }

  unsigned queueOf(Operation *op) const {
    if (overlap && isAddress(op))
      return kAddresses;
    return static_cast<unsigned>(assignedQueue(op));
  }

  static bool fillsDevice(Operation *op) {
    auto scheduled = dyn_cast<zero::ScheduledOp>(op);
    return scheduled && scheduled.fillsDevice();
  }

  /// What SSA does not say: buffers and storage are touched in the order written, readers beside each other.
  void addMemoryOrder(Operation *op, llvm::function_ref<void(Operation *)> follow) {
    for (OpOperand &operand : op->getOpOperands()) {
      Value buffer = makers.of(operand.get());
      if (!isa<zero::BufferType>(buffer.getType()))
        continue;
      Touch<Operation *> touch = touchOf(operand.get());
      touch.by = op;
      touch.writes = mutates(op, operand.get());
      Touches<Operation *> &touches = memory[makers.objectOf(buffer)];
      touches.forEachConflict(touch, [&](const Touch<Operation *> &earlier) {
        if (earlier.by != op)
          follow(earlier.by);
      });
      if (touch.writes) // whoever comes later follows this one, and through it the ones before
        touches.eraseCovered(touch);
      touches.add(touch);
    }
    // A stored tensor is read in place: its readers stand between the assignments they stood between.
    for (Value operand : op->getOperands())
      if (auto read = zero::viewedValue(operand).getDefiningOp<graph::ReadOp>())
        touchState(read.getParameterAttr(), op, /*assigns=*/false, follow);
    if (auto scheduled = dyn_cast<zero::ScheduledOp>(op))
      if (zero::State assigned = scheduled.getAssignedState()) // losses have no symbol
        touchState(assigned.symbol, op, /*assigns=*/true, follow);
  }

  /// The elements that `value` shows of what it views; a tensor inside counts as the whole.
  Touch<Operation *> touchOf(Value value) {
    Touch<Operation *> touch;
    Value buffer = value;
    if (!isa<zero::BufferType>(value.getType()))
      buffer = makers.of(value);
    touch.end = cast<zero::BufferType>(buffer.getType()).getNumElements();
    while (auto part = buffer.getDefiningOp<zero::PartOp>()) {
      buffer = part.getBuffer();
      if (part.getAxesAttr()) { // one of several
        touch.begin = 0;
        touch.end = cast<zero::BufferType>(buffer.getType()).getNumElements();
        continue;
      }
      touch.begin += static_cast<int64_t>(part.getOffset());
      touch.end += static_cast<int64_t>(part.getOffset());
    }
    if (auto storage = buffer.getDefiningOp<zero::StorageOp>()) {
      touch.own = storage.getOwn();
      touch.begin += static_cast<int64_t>(storage.getOffset());
      touch.end += static_cast<int64_t>(storage.getOffset());
    }
    return touch;
  }

  void touchState(Attribute name, Operation *op, bool assigns, llvm::function_ref<void(Operation *)> follow) {
    State &state = states[name];
    follow(state.assign);
    if (!assigns)
      return state.readers.push_back(op);
    for (Operation *reader : state.readers)
      if (reader != op)
        follow(reader);
    state = {op, {}};
  }

  DenseMap<Operation *, size_t> indices;
  Makers makers;
  DenseMap<MemoryObject, Touches<Operation *>> memory; ///< touches that later ones may have to follow
  /// A stored tensor: its last assignment so far, and who read it since.
  struct State {
    Operation *assign = nullptr;
    SmallVector<Operation *> readers;
  };
  DenseMap<Attribute, State> states;
  DenseMap<Operation *, SmallVector<Operation *>> leaving; ///< the device, that compute waits for
  Operation *lastCompute = nullptr;
  llvm::DenseSet<Operation *> publishing;
  std::array<Operation *, kQueues> lastPublishing{};
};

struct OrderPass : StagePass<impl::OrderBase<OrderPass>, ScheduleOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<graph::ProgramOp>())
      if (failed(orderProgram(program)))
        return signalPassFailure();
  }

  LogicalResult orderProgram(graph::ProgramOp program) {
    ProgramProblem instance(program, options.overlap != Overlap::none);
    ScheduleProblem &problem = instance.problem;
    problem.numQueues = kQueues;
    std::string error;
    if (failed(problem.check(error)))
      return program.emitError("unsound schedule problem: ") << error;
    scheduleAsList(problem, static_cast<unsigned>(plan::Queue::compute));
    if (failed(problem.verify(error)))
      return program.emitError("illegal schedule: ") << error;
    std::vector<size_t> order(instance.operations.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return problem.starts[a] < problem.starts[b]; });
    std::vector<double> starts;
    starts.reserve(order.size());
    for (size_t index : order) {
      instance.operations[index]->moveBefore(program.getBlock().getTerminator());
      starts.push_back(problem.starts[index]);
    }
    program->setAttr(kStarts, DenseF64ArrayAttr::get(program.getContext(), starts));
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> createOrder(const ScheduleOptions &options) { return std::make_unique<OrderPass>(options); }

} // namespace zc
