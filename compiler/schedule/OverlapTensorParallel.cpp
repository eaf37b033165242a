//===- OverlapTensorParallel.cpp - a product in halves, one beside the sum of the other ------===//
//
// A product whose result is summed over the ranks of the model axis leaves compute idle while it is: what follows needs
// the sum. Of two halves of its rows the first is summed while the second is multiplied. Both read and write where the
// whole would be, so that nothing is copied; each element's sums stay what they were. Of a sum of which each rank keeps
// its part a half is half of each part.
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

/// The elements from one index of the first dimension of more than one to the next lie behind each other.
bool isLeading(int64_t dim, ArrayRef<int64_t> shape) {
  return llvm::all_of(shape.take_front(static_cast<size_t>(dim)), [](int64_t size) { return size == 1; });
}

/// A product whose result is summed over the ranks, and by nobody else read.
class SummedProduct {
public:
  /// Nothing where the product is not summed, or cannot be computed in halves.
  static std::optional<SummedProduct> find(graph::MatmulOp product) {
    SummedProduct found(product);
    if (!found.findSum() || !found.hasHalves() || !fitsBuffer(zero::viewedValue(product.getLhs())) ||
        !isReadByKernels(found.sum->getResult(0)))
      return std::nullopt;
    return found;
  }

  graph::MatmulOp product;
  Operation *sum = nullptr;   ///< all_reduce or reduce_scatter
  graph::TransposeOp inParts; ///< brings the ranks' parts of what is scattered behind each other, if that is needed
  int64_t runs = 1;           ///< of rows in a half: half of each rank's part, where it keeps rows that lie together

private:
  explicit SummedProduct(graph::MatmulOp product) : product(product) {}

  bool findSum() {
    sum = onlyReader(product.getResult());
    if (auto reduce = dyn_cast_or_null<graph::AllReduceOp>(sum))
      return !reduce.getMax();
    if ((inParts = dyn_cast_or_null<graph::TransposeOp>(sum)))
      sum = onlyReader(inParts.getResult());
    auto scatter = dyn_cast_or_null<graph::ReduceScatterOp>(sum);
    if (!scatter || !isLeading(scatter.getDim(), typeOf(scatter.getInput()).getShape()))
      return false;
    if (!inParts) {
      runs = scatter.getRanks();
      return true;
    }
    // Each half has all parts of half of what is outside of them (zero-model-axis).
    ArrayRef<int64_t> shape = typeOf(inParts.getInput()).getShape();
    return inParts.getPermutation() == ArrayRef<int64_t>{1, 0, 2} && shape[0] % 2 == 0 &&
           shape[1] == static_cast<int64_t>(scatter.getRanks()) && scatter.getDim() == 0;
  }

  /// A matrix of rows that are independent, of which runs, and halves of what is summed, are whole lines of memory.
  bool hasHalves() {
    RankedTensorType result = typeOf(product.getResult()), lhs = typeOf(product.getLhs());
    if (product.getBias() || product.getTransLhs() || typeOf(product.getRhs()).getRank() != 2)
      return false;
    int64_t rows = result.getNumElements() / std::max<int64_t>(1, result.getShape().back()), pieces = 2 * runs;
    auto divides = [](int64_t pieces, RankedTensorType type) {
      return type.getNumElements() > 0 && graph::bytesOf(type) % (pieces * kAlignment) == 0;
    };
    return rows % pieces == 0 && divides(pieces, lhs) && divides(pieces, result) &&
           divides(2, typeOf(sum->getResult(0)));
  }
};

/// Computes programs' products in halves.
class Halves {
public:
  Halves(ModuleOp module) : machine(machineOf(module)), mesh(zero::meshOf(module)), builder(module.getContext()) {}

  int64_t run(Block &block) {
    SmallVector<SummedProduct> found;
    for (auto product : block.getOps<graph::MatmulOp>())
      if (auto summed = SummedProduct::find(product); summed && pays(*summed))
        found.push_back(*summed);
    for (SummedProduct &each : found)
      halve(each);
    return static_cast<int64_t>(found.size());
  }

private:
  double seconds(zero::Work work) const { return secondsOf(work, machine, mesh); }
  double seconds(Operation *op) const { return seconds(cast<zero::ScheduledOp>(op).getWork()); }

  /// Until what needs the sum can begin: the whole, beside which other work may stand already, and the halves.
  bool pays(const SummedProduct &each) const {
    graph::MatmulOp product = each.product;
    zero::Work multiply = cast<zero::ScheduledOp>(product.getOperation()).getWork();
    zero::Work send = cast<zero::ScheduledOp>(each.sum).getWork();
    double beside = 0, inParts = each.inParts ? seconds(each.inParts) : 0, before = seconds(multiply) + inParts;
    Operation *reader = firstReader(each.sum->getResult(0));
    for (Operation *op = product->getNextNode(); op && op != reader; op = op->getNextNode()) // order moves it there
      if (auto scheduled = dyn_cast<zero::ScheduledOp>(op); scheduled && op != each.inParts)
        if (zero::Work work = scheduled.getWork(); work.kind == zero::Work::Kind::compute)
          beside += seconds(work);
    double whole = before + std::max(seconds(send), beside);
    auto weight = static_cast<double>(graph::bytesOf(typeOf(product.getRhs())));
    auto runs = static_cast<double>(each.runs);
    multiply.flops /= 2 * runs; // each run reads all of the weight
    multiply.bytes = (multiply.bytes - weight) / (2 * runs) + weight;
    send.gathered /= 2;
    double one = runs * seconds(multiply) + inParts / 2, sent = seconds(send);
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

  void halve(SummedProduct &each) {
    Location location = each.sum->getLoc();
    Value lhs = bufferOf(zero::viewedValue(each.product.getLhs()));
    RankedTensorType to = typeOf(each.sum->getResult(0));
    // Before what may end the weight's life; joined where somebody reads, as compute waits there for the sums.
    builder.setInsertionPoint(each.product);
    Value buffer = makeBuffer(location, to);
    SmallVector<Value, 2> halves;
    for (int64_t half = 0; half < 2; ++half)
      halves.push_back(summed(each, multiplied(each, lhs, half)));
    Operation *reader = firstReader(each.sum->getResult(0));
    builder.setInsertionPoint(reader ? reader : each.sum);
    for (auto [half, value] : llvm::enumerate(halves))
      builder.create<zero::PutOp>(location, value, buffer, static_cast<int64_t>(half) * to.getNumElements() / 2);
    Value whole = builder.create<zero::ViewOp>(location, to, buffer, 0);
    each.sum->getResult(0).replaceAllUsesWith(whole);
    moveViews(whole);
    erase(each);
  }

  /// Half of the product's rows, [rows / 2, columns]: run after run, each from its place among all rows.
  Value multiplied(SummedProduct &each, Value lhs, int64_t half) {
    Location location = each.product.getLoc();
    RankedTensorType from = typeOf(each.product.getLhs()), to = typeOf(each.product.getResult());
    int64_t width = from.getShape().back(), rows = from.getNumElements() / width / (2 * each.runs);
    auto multiply = [&](int64_t run) -> Value {
      Value part = builder.create<zero::ViewOp>(location, RankedTensorType::get({rows, width}, from.getElementType()),
                                                lhs, (2 * run + half) * rows * width);
      auto product = builder.create<graph::MatmulOp>(location, part, each.product.getRhs(), Value(),
                                                     /*trans_lhs=*/false, each.product.getTransRhs());
      product->setDiscardableAttrs(each.product->getDiscardableAttrDictionary()); // notes, as of the micro-step
      return product;
    };
    if (each.runs == 1)
      return multiply(0);
    int64_t columns = to.getShape().back();
    auto type = RankedTensorType::get({each.runs * rows, columns}, to.getElementType());
    Value buffer = makeBuffer(location, type);
    for (int64_t run = 0; run < each.runs; ++run)
      builder.create<zero::PutOp>(location, multiply(run), buffer, run * rows * columns);
    return builder.create<zero::ViewOp>(location, type, buffer, 0);
  }

  /// The sum of half of the rows, or this rank's part of it.
  Value summed(SummedProduct &each, Value rows) {
    if (each.inParts) {
      SmallVector<int64_t, 3> shape(typeOf(each.inParts.getInput()).getShape());
      shape[0] /= 2;
      Value outside = builder.create<graph::ReshapeOp>(each.inParts.getLoc(), rows, shape);
      rows = builder.create<graph::TransposeOp>(each.inParts.getLoc(), outside, each.inParts.getPermutation());
    }
    Operation *sum;
    if (auto scatter = dyn_cast<graph::ReduceScatterOp>(each.sum))
      sum = builder.create<graph::ReduceScatterOp>(scatter.getLoc(), rows, 0, scatter.getRanks());
    else
      sum = builder.create<graph::AllReduceOp>(each.sum->getLoc(), rows, /*max=*/false);
    sum->setDiscardableAttrs(each.sum->getDiscardableAttrDictionary());
    return sum->getResult(0);
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

  /// With what stands between them.
  static void erase(SummedProduct &each) {
    Value input = each.sum->getOperand(0);
    each.sum->erase();
    while (input != each.product.getResult()) {
      Operation *between = input.getDefiningOp();
      input = between->getOperand(0);
      between->erase();
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
