//===- OverlapTensorParallel.cpp - a product in halves, one beside the sum of the other ------===//
//
// A product whose result is summed over the ranks of the model axis leaves compute idle while it is: what follows needs
// the sum. Of two halves of its rows the first is summed while the second is multiplied. Both read and write where the
// whole would be, so that nothing is copied; each element's sums stay what they were.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Passes.h"
#include "dialects/zero/Zero.h"

namespace zc {
#define GEN_PASS_DEF_OVERLAPTENSORPARALLEL
#include "compiler/schedule/Passes.h.inc"

using namespace mlir;

namespace {

/// Where halves may begin: what kernels are given is aligned to a cache line.
constexpr int64_t kAlignment = 64;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A product whose result is summed over the ranks, and by nobody else read.
struct SummedProduct {
  graph::MatmulOp product;
  graph::AllReduceOp sum;
};

/// The reader of `value`, behind views, if there is one only.
Operation *onlyReader(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!graph::isView(user))
      return user;
    value = user->getResult(0);
  }
  return nullptr;
}

/// All operations that read the bytes of `value`.
void addReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (zero::isView(user))
      addReaders(user->getResult(0), readers);
    else
      readers.push_back(user);
}

/// Has it no place of its own: no bucket, no other tier?
bool isReadByKernels(Value value) {
  SmallVector<Operation *> readers;
  addReaders(value, readers);
  return llvm::all_of(readers, [](Operation *reader) { return isa<graph::KernelOp>(reader); });
}

/// Can it be computed inside of a buffer, and read there?
bool fitsBuffer(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<graph::KernelOp>(op) && !graph::isCollective(op) && !isa<graph::ConstantOp>(op) &&
         isReadByKernels(value);
}

/// A matrix of rows that are independent, of which half are whole lines of memory.
bool hasHalves(graph::MatmulOp product) {
  RankedTensorType result = typeOf(product.getResult()), lhs = typeOf(product.getLhs());
  if (product.getBias() || product.getTransLhs() || typeOf(product.getRhs()).getRank() != 2)
    return false;
  int64_t rows = result.getNumElements() / std::max<int64_t>(1, result.getShape().back());
  return rows > 0 && rows % 2 == 0 && lhs.getNumElements() > 0 && graph::bytesOf(lhs) % (2 * kAlignment) == 0 &&
         graph::bytesOf(result) % (2 * kAlignment) == 0;
}

/// Computes programs' products in halves.
class Halves {
public:
  Halves(ModuleOp module) : machine(machineOf(module)), mesh(zero::meshOf(module)), builder(module.getContext()) {}

  int64_t run(Block &block) {
    SmallVector<SummedProduct> found;
    for (auto product : block.getOps<graph::MatmulOp>())
      if (auto sum = dyn_cast_or_null<graph::AllReduceOp>(onlyReader(product.getResult())))
        if (!sum.getMax() && hasHalves(product) && fitsBuffer(zero::viewedValue(product.getLhs())) &&
            isReadByKernels(sum.getResult()) && pays(product, sum))
          found.push_back({product, sum});
    for (SummedProduct each : found)
      halve(each);
    return static_cast<int64_t>(found.size());
  }

private:
  double seconds(zero::Work work) const { return secondsOf(work, machine, mesh); }

  /// Until what needs the sum can begin: the whole, beside which other work may stand already, and the halves.
  bool pays(graph::MatmulOp product, graph::AllReduceOp sum) const {
    zero::Work multiply = cast<zero::ScheduledOp>(product.getOperation()).getWork();
    zero::Work send = cast<zero::ScheduledOp>(sum.getOperation()).getWork();
    double beside = 0, before = seconds(multiply);
    Operation *reader = firstReader(sum.getResult());
    for (Operation *op = sum->getNextNode(); op && op != reader; op = op->getNextNode())
      if (auto scheduled = dyn_cast<zero::ScheduledOp>(op))
        if (zero::Work work = scheduled.getWork(); work.kind == zero::Work::Kind::compute)
          beside += seconds(work);
    double whole = before + std::max(seconds(send), beside);
    multiply.flops /= 2; // both read all of the weight
    multiply.bytes = (multiply.bytes + static_cast<double>(graph::bytesOf(typeOf(product.getRhs())))) / 2;
    send.gathered /= 2;
    double one = seconds(multiply), sent = seconds(send);
    double halves = std::max(2 * one + beside, std::max(one + sent, 2 * one) + sent);
    return halves < whole;
  }

  /// The first operation of the block that reads the bytes of `value`.
  static Operation *firstReader(Value value) {
    SmallVector<Operation *> readers;
    addReaders(value, readers);
    Operation *first = nullptr;
    for (Operation *reader : readers)
      if (Operation *op = value.getParentBlock()->findAncestorOpInBlock(*reader); !first || op->isBeforeInBlock(first))
        first = op;
    return first;
  }

  /// The buffer in which `value` is computed from now on, and read by all.
  Value bufferOf(Value value) {
    if (isa<zero::BufferType>(value.getType())) // of another product of it
      return value;
    builder.setInsertionPoint(value.getDefiningOp());
    Value buffer = makeBuffer(value.getLoc(), typeOf(value));
    builder.setInsertionPointAfterValue(value);
    auto put = builder.create<zero::PutOp>(value.getLoc(), value, buffer, 0);
    Value view = builder.create<zero::ViewOp>(value.getLoc(), value.getType(), buffer, 0);
    value.replaceAllUsesExcept(view, put);
    return buffer;
  }

  Value makeBuffer(Location location, RankedTensorType type) {
    return builder.create<zero::AllocOp>(
        location,
        zero::BufferType::get(builder.getContext(), type.getNumElements(), type.getElementType(), zero::Tier::device),
        /*activation=*/true);
  }

  void halve(SummedProduct each) {
    graph::MatmulOp product = each.product;
    Location location = product.getLoc(), summed = each.sum.getLoc();
    Value lhs = bufferOf(zero::viewedValue(product.getLhs()));
    RankedTensorType from = typeOf(product.getLhs()), to = typeOf(product.getResult());
    int64_t width = from.getShape().back(), rows = from.getNumElements() / width / 2;
    // Before what may end the weight's life; joined where somebody reads, as compute waits there for the sums.
    builder.setInsertionPoint(product);
    Value buffer = makeBuffer(summed, to);
    SmallVector<Value, 2> halves;
    for (int64_t half = 0; half < 2; ++half) {
      Value part = builder.create<zero::ViewOp>(location, RankedTensorType::get({rows, width}, from.getElementType()),
                                                lhs, half * rows * width);
      auto multiplied = builder.create<graph::MatmulOp>(location, part, product.getRhs(), Value(),
                                                        /*trans_lhs=*/false, product.getTransRhs());
      auto sum = builder.create<graph::AllReduceOp>(summed, multiplied, /*max=*/false);
      // Notes, as of the micro-step.
      multiplied->setDiscardableAttrs(product->getDiscardableAttrDictionary());
      sum->setDiscardableAttrs(each.sum->getDiscardableAttrDictionary());
      halves.push_back(sum);
    }
    Operation *reader = firstReader(each.sum.getResult());
    builder.setInsertionPoint(reader ? reader : each.sum.getOperation());
    for (auto [half, value] : llvm::enumerate(halves))
      builder.create<zero::PutOp>(summed, value, buffer, static_cast<int64_t>(half) * to.getNumElements() / 2);
    Value whole = builder.create<zero::ViewOp>(summed, each.sum.getType(), buffer, 0);
    each.sum.replaceAllUsesWith(whole);
    moveViews(whole);
    erase(each);
  }

  /// Views of the sum stand behind it.
  static void moveViews(Value whole) {
    Operation *last = whole.getDefiningOp();
    for (Operation *user : llvm::make_early_inc_range(whole.getUsers()))
      if (zero::isView(user) && user->isBeforeInBlock(last)) {
        user->moveAfter(last);
        moveViews(user->getResult(0));
      }
  }

  /// With the views between them.
  static void erase(SummedProduct each) {
    Value input = each.sum.getInput();
    each.sum.erase();
    while (input != each.product.getResult()) {
      Operation *view = input.getDefiningOp();
      input = view->getOperand(0);
      view->erase();
    }
    each.product.erase();
  }

  const MachineModel machine;
  const Mesh mesh;
  OpBuilder builder;
};

struct OverlapTensorParallelPass
    : StagePass<impl::OverlapTensorParallelBase<OverlapTensorParallelPass>, ScheduleOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.overlapTensorParallel == TensorParallelOverlap::off || getOperation().getOps<zero::MeshOp>().empty())
      return;
    Halves halves(getOperation());
    for (auto program : getOperation().getOps<graph::ProgramOp>())
      numProducts += static_cast<unsigned>(halves.run(program.getBlock()));
  }
};

} // namespace

std::unique_ptr<Pass> createOverlapTensorParallel(const ScheduleOptions &options) {
  return std::make_unique<OverlapTensorParallelPass>(options);
}

} // namespace zc
