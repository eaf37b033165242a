//===- ZeroResidency.cpp - parameters that every rank keeps whole ---------------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Zero.h"

namespace zc {
#define GEN_PASS_DEF_ZERORESIDENCY
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

struct Candidate {
  zero::BucketOp bucket;
  int64_t whole = 0; ///< bytes of its parameters
  int64_t extra = 0; ///< of them, those that residency adds
  int64_t saved = 0; ///< gathers of it that a step is spared
};

struct ZeroResidencyPass : StagePass<impl::ZeroResidencyBase<ZeroResidencyPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    SmallVector<Candidate> candidates = candidatesOf(getOperation());
    llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
      // Saved bytes of links per byte taken, without dividing.
      auto left = static_cast<double>(a.saved * a.whole) * static_cast<double>(b.extra);
      auto right = static_cast<double>(b.saved * b.whole) * static_cast<double>(a.extra);
      return left != right ? left > right : a.whole < b.whole;
    });
    int64_t left = options.resident;
    for (Candidate &candidate : candidates)
      if (candidate.saved > 0 && candidate.extra <= left) {
        candidate.bucket.setResident(true);
        left -= candidate.extra;
        ++numResident;
      }
  }

private:
  SmallVector<Candidate> candidatesOf(ModuleOp module) {
    llvm::StringMap<size_t> places;
    SmallVector<Candidate> candidates;
    const Mesh mesh = zero::meshOf(module);
    for (auto bucket : module.getOps<zero::BucketOp>()) {
      for (auto member : bucket.getMembers().getAsRange<zero::MemberAttr>())
        places[member.getParameter().getValue()] = candidates.size();
      int64_t whole = static_cast<int64_t>(bucket.getPadded()) * graph::bytesOfElement(bucket.getType());
      // With one rank only what is elsewhere can become resident, and takes all of its bytes.
      int64_t cuts = zero::cutsOf(bucket, mesh);
      candidates.push_back({bucket, whole, cuts > 1 ? whole - whole / cuts : whole, 0});
    }
    for (auto program : module.getOps<graph::ProgramOp>())
      if (program.getPhase() == graph::Phase::micro)
        countGathers(program, places, candidates);
    return candidates;
  }

  /// One for each half of the micro-step that uses a bucket; less the one after the update.
  void countGathers(graph::ProgramOp program, const llvm::StringMap<size_t> &places,
                    MutableArrayRef<Candidate> candidates) {
    Operation *border = program.getBackward();
    // Block by block, micro-steps gather once for all.
    const int64_t times = options.isVertical() ? 1 : options.accumulation;
    std::vector<std::array<bool, 2>> used(candidates.size(), {false, false});
    for (auto read : program.getBlock().getOps<graph::ReadOp>()) {
      auto place = places.find(read.getParameter());
      if (place == places.end())
        continue;
      SmallVector<Value> aliases{read.getResult()};
      while (!aliases.empty())
        for (Operation *user : aliases.pop_back_val().getUsers())
          if (graph::isView(user))
            aliases.push_back(user->getResult(0));
          else
            used[place->second][border && border->isBeforeInBlock(user)] = true;
    }
    for (auto [candidate, halves] : llvm::zip_equal(candidates, used))
      candidate.saved = (halves[0] + halves[1]) * times - (candidate.bucket.getTrainable() ? 1 : 0);
  }
};

} // namespace

std::unique_ptr<Pass> createZeroResidency(const ShardOptions &options) {
  return std::make_unique<ZeroResidencyPass>(options);
}

} // namespace zc
