//===- Candidates.cpp - what searches over strategies choose from -----------------------===//

#include "compiler/pipeline/Candidates.h"

using namespace zc;

namespace {

struct Apply {
  Strategy &strategy;
  void operator()(const ZeroStage &choice) const { strategy.shard.stage = choice.stage; }
  void operator()(const ModelRanks &choice) const { strategy.shard.model = choice.ranks; }
  void operator()(const BucketSize &choice) const { strategy.shard.bucketSize = choice.bytes; }
  void operator()(const NoPrefetch &) const { strategy.schedule.prefetch = 0; }
  void operator()(CheckpointPolicy choice) const { strategy.grad.checkpoint = choice; }
  void operator()(const Placed &choice) const { strategy.shard.*choice.field = choice.tier; }
};

struct Text {
  std::string operator()(const ZeroStage &choice) const { return "--zero-stage " + std::to_string(choice.stage); }
  std::string operator()(const ModelRanks &choice) const { return "--tensor-parallel " + std::to_string(choice.ranks); }
  std::string operator()(const BucketSize &choice) const {
    return "--bucket-size " + std::to_string(choice.bytes / 1024) + "KiB";
  }
  std::string operator()(const NoPrefetch &) const { return "--prefetch none"; }
  std::string operator()(CheckpointPolicy choice) const {
    return std::string("--checkpoint-activations ") + nameOf(choice);
  }
  std::string operator()(const Placed &choice) const {
    const char *what = choice.field == &ShardOptions::offloadParam        ? "param"
                       : choice.field == &ShardOptions::offloadActivation ? "activation"
                                                                          : "optimizer";
    return std::string("--offload-") + what + " " + nameOf(choice.tier);
  }
};

} // namespace

void zc::apply(const Choice &choice, Strategy &strategy) { std::visit(Apply{strategy}, choice); }

std::string zc::flagOf(const Choice &choice) { return std::visit(Text(), choice); }
