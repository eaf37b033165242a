//===- Activations.cpp - what forward leaves for backward, off the device ------------===//

#include "compiler/shard/Views.h"
#include "compiler/shard/offload/Offload.h"

using namespace mlir;
using namespace zc;
using namespace zc::offload;

namespace {

/// Smaller values stay: moving them costs more steps than bytes.
constexpr int64_t kSmallest = 4096;

/// Uses of a value and of views of it, by operations that are no views.
struct Uses {
  Operation *lastForward = nullptr;
  SmallVector<OpOperand *> backward;
};

class ActivationOffload {
public:
  ActivationOffload(Context &context, zero::Tier tier) : context(context), tier(tier) {}

  void run() {
    Block &block = context.micro.getBlock();
    border = context.micro.getBackward();
    if (!border)
      return;
    SmallVector<Value> candidates;
    for (Operation &op : llvm::make_range(block.begin(), border->getIterator())) {
      if (op.getNextNode() == border)
        break; // what the last operation makes is needed at once
      if (isa<graph::KernelOp>(op) && !zero::isView(&op))
        candidates.append(op.result_begin(), op.result_end());
    }
    for (Value value : candidates)
      if (zero::bytesOf(value.getType()) >= kSmallest)
        offload(value);
  }

private:
  Uses usesOf(Value value) {
    Uses uses;
    uses.lastForward = value.getDefiningOp();
    SmallVector<Value> aliases{value};
    while (!aliases.empty())
      for (OpOperand &use : aliases.pop_back_val().getUses()) {
        Operation *user = use.getOwner();
        if (zero::isView(user))
          aliases.push_back(user->getResult(0));
        else if (border->isBeforeInBlock(user))
          uses.backward.push_back(&use);
        else if (uses.lastForward->isBeforeInBlock(user))
          uses.lastForward = user;
      }
    return uses;
  }

  void offload(Value value) {
    Uses uses = usesOf(value);
    if (uses.backward.empty())
      return;
    Location location = value.getLoc();
    auto type = cast<RankedTensorType>(value.getType());
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfter(uses.lastForward);
    auto bufferOn = [&](OpBuilder &at, zero::Tier where) -> Value {
      auto buffer = zero::BufferType::get(at.getContext(), type.getNumElements(), type.getElementType(), where);
      return at.create<zero::AllocOp>(location, buffer, /*activation=*/true);
    };
    Value kept = bufferOn(builder, tier);
    // A tensor cannot be cut: on its way to a file all of it lies on the host for a while.
    auto stage = [&](OpBuilder &at) {
      return context.microStaging.next(at, location, "activations", type.getNumElements(), type.getElementType());
    };
    if (tier == zero::Tier::host) {
      builder.create<zero::EvictOp>(location, value, kept);
    } else {
      Value staged = stage(builder);
      builder.create<zero::EvictOp>(location, value, staged);
      builder.create<zero::EvictOp>(location, staged, kept);
    }
    Operation *first = uses.backward.front()->getOwner();
    for (OpOperand *use : uses.backward)
      first = use->getOwner()->isBeforeInBlock(first) ? use->getOwner() : first;
    builder.setInsertionPoint(first);
    auto load = builder.create<zero::LoadOp>(location, [&](OpBuilder &inside) {
      Value loaded = bufferOn(inside, zero::Tier::device), source = kept;
      if (tier == zero::Tier::nvme) {
        source = stage(inside);
        inside.create<zero::FetchOp>(location, kept, source);
      }
      inside.create<zero::FetchOp>(location, source, loaded);
      return loaded;
    });
    IRMapping map;
    map.map(value, builder.create<zero::ViewOp>(location, type, load.getBuffer(), int64_t(0)).getResult());
    for (OpOperand *use : uses.backward)
      use->set(cloneViews(builder, map, use->get()));
  }

  Context &context;
  zero::Tier tier;
  Operation *border = nullptr; ///< what follows is backward
};

} // namespace

void offload::offloadActivations(Context &context, zero::Tier tier) { ActivationOffload(context, tier).run(); }
