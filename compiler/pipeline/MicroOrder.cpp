//===- MicroOrder.cpp - rolled or vertical ------------------------------------------------===//

#include "compiler/pipeline/MicroOrder.h"

using namespace zc;

MicroOrder zc::fasterMicroOrder(const CompileOptions &options, const Prediction &predict) {
  constexpr int64_t kMost = 10000; // operations: placing more takes longer than people wait unasked
  constexpr double kGain = 0.95;   // activations of all micro-steps are kept for it
  const ShardOptions &given = options.strategy.shard;
  if (given.accumulation < 2 || options.import.forwardOnly || given.offloadParam == Offload::none ||
      options.stopAfter < Phase::shard)
    return MicroOrder::rolled;
  CompileOptions tried = predicting(options);
  ShardOptions &shard = tried.strategy.shard;
  shard.microOrder = MicroOrder::rolled;
  Result<double> rolled = predict(tried);
  if (!rolled && rolled.error().code != Code::budget)
    return MicroOrder::rolled;
  shard.microOrder = MicroOrder::vertical;
  shard.verticalMost = kMost;
  Result<double> vertical = predict(tried);
  return vertical && (!rolled || *vertical < kGain * *rolled) ? MicroOrder::vertical : MicroOrder::rolled;
}
