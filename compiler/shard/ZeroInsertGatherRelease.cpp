//===- ZeroInsertGatherRelease.cpp - gather before first use, release after last ------===//

#include "compiler/shard/Passes.h"
#include "compiler/shard/Views.h"
#include "dialects/zero/Zero.h"

#include "llvm/ADT/MapVector.h"

namespace zc {
#define GEN_PASS_DEF_ZEROINSERTGATHERRELEASE
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// What is asked of a bucket between a gather and its release: by one half of the micro-step (forward or backward), or
/// by one use of a tile.
struct Demand {
  SmallVector<std::pair<graph::ReadOp, int64_t>> reads; ///< with element offsets
  SmallVector<OpOperand *> uses;                        ///< by operations that are no views, of reads or views of them
};

struct ZeroInsertGatherReleasePass : impl::ZeroInsertGatherReleaseBase<ZeroInsertGatherReleasePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    mesh = zero::meshOf(module);
    llvm::StringMap<std::pair<zero::BucketOp, int64_t>> places;
    for (auto bucket : module.getOps<zero::BucketOp>())
      for (auto member : bucket.getMembers().getAsRange<zero::MemberAttr>())
        places[member.getParameter().getValue()] = {bucket, member.getOffset()};
    for (auto parameter : module.getOps<graph::ParameterOp>())
      if (parameter.getPart())
        tileNames.insert(parameter.getSymNameAttr());
    for (auto program : module.getOps<graph::ProgramOp>())
      if (program.getPhase() != graph::Phase::update)
        lowerReads(program, places);
  }

  void lowerReads(graph::ProgramOp program, llvm::StringMap<std::pair<zero::BucketOp, int64_t>> &places) {
    Block &block = program.getBlock();
    Operation *border = program.getBackward();
    auto isBackward = [&](Operation *op) { return border && border->isBeforeInBlock(op); };
    llvm::MapVector<Operation *, std::array<Demand, 2>> demands;
    std::vector<std::pair<zero::BucketOp, Demand>> tiles;
    SmallVector<graph::ReadOp> reads;
    for (auto read : block.getOps<graph::ReadOp>()) {
      auto place = places.find(read.getParameter());
      if (place == places.end())
        continue; // a buffer: replicated, read in place
      reads.push_back(read);
      auto [bucket, offset] = place->second;
      SmallVector<OpOperand *> uses;
      collectUses(read.getResult(), uses);
      if (isTile(read)) {
        for (OpOperand *use : uses)
          tiles.push_back({bucket, Demand{{{read, offset}}, {use}}});
        continue;
      }
      std::array<Demand, 2> &halves = demands[bucket];
      for (bool backward : {false, true}) {
        size_t before = halves[backward].uses.size();
        for (OpOperand *use : uses)
          if (isBackward(use->getOwner()) == backward)
            halves[backward].uses.push_back(use);
        if (halves[backward].uses.size() != before)
          halves[backward].reads.push_back({read, offset});
      }
    }
    for (auto &[bucket, halves] : demands)
      for (Demand &half : halves)
        if (!half.uses.empty())
          lower(cast<zero::BucketOp>(bucket), half);
    for (auto &[bucket, use] : tiles)
      lower(bucket, use);
    SmallVector<Operation *> dead(reads.begin(), reads.end());
    for (Operation *op : dead)
      eraseViews(op);
  }

  bool isTile(graph::ReadOp read) const { return tileNames.contains(read.getParameterAttr().getAttr()); }

  /// Uses of `value` and of views of it by operations that compute.
  static void collectUses(Value value, SmallVector<OpOperand *> &uses) {
    SmallVector<Value> aliases{value};
    while (!aliases.empty())
      for (OpOperand &use : aliases.pop_back_val().getUses()) {
        if (graph::isView(use.getOwner()))
          aliases.push_back(use.getOwner()->getResult(0));
        else
          uses.push_back(&use);
      }
  }

  void lower(zero::BucketOp bucket, Demand &half) {
    Operation *first = half.uses.front()->getOwner(), *last = first;
    for (OpOperand *use : half.uses) {
      Operation *owner = use->getOwner();
      first = owner->isBeforeInBlock(first) ? owner : first;
      last = last->isBeforeInBlock(owner) ? owner : last;
    }
    OpBuilder builder(first);
    auto type = zero::BufferType::get(&getContext(), bucket.getPadded(), bucket.getType(), zero::Tier::device);
    Value buffer;
    Value stored = zero::createStorage(builder, first->getLoc(), bucket, zero::Storage::parameters, mesh);
    if (bucket.getParametersSharded()) {
      buffer =
          builder
              .create<zero::LoadOp>(first->getLoc(),
                                    [&](OpBuilder &inside) -> Value {
                                      return inside.create<zero::GatherOp>(first->getLoc(), type, stored, ArrayAttr());
                                    })
              .getBuffer();
      builder.setInsertionPointAfter(last);
      builder.create<zero::ReleaseOp>(last->getLoc(), buffer);
      builder.setInsertionPointAfter(buffer.getDefiningOp());
      ++numGathers;
    } else {
      buffer = stored;
    }
    IRMapping map;
    for (auto &[read, offset] : half.reads)
      map.map(read.getResult(),
              builder.create<zero::ViewOp>(read.getLoc(), read.getResult().getType(), buffer, offset).getResult());
    for (OpOperand *use : half.uses)
      use->set(cloneViews(builder, map, use->get()));
  }

  static void eraseViews(Operation *op) {
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      eraseViews(user);
    op->erase();
  }

  Mesh mesh;
  llvm::DenseSet<StringAttr> tileNames; ///< of parameters that are parts of others
};

} // namespace
} // namespace zc
