//===- Activations.cpp - what forward leaves for backward, off the device ------------===//

#include "compiler/shard/Views.h"
#include "compiler/shard/offload/Offload.h"

using namespace mlir;
using namespace zc;
using namespace zc::offload;

namespace {

/// Smaller values stay: moving them costs more steps than bytes.
constexpr int64_t kSmallest = 4096;

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
  void offload(Value value) {
    HalvesUses uses(value, border);
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
    builder.setInsertionPoint(uses.firstBackward());
    auto load = builder.create<zero::LoadOp>(location, [&](OpBuilder &inside) {
      Value loaded = bufferOn(inside, zero::Tier::device), source = kept;
      if (tier == zero::Tier::nvme) {
        source = stage(inside);
        inside.create<zero::FetchOp>(location, kept, source);
      }
      inside.create<zero::FetchOp>(location, source, loaded);
      return loaded;
    });
    uses.readInstead(builder, value,
                     builder.create<zero::ViewOp>(location, type, load.getBuffer(), int64_t(0)).getResult());
  }

  Context &context;
  zero::Tier tier;
  Operation *border = nullptr; ///< what follows is backward
};

} // namespace

void offload::offloadActivations(Context &context, zero::Tier tier) { ActivationOffload(context, tier).run(); }
