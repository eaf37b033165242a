//===- MicroOrder.cpp - rolled or vertical ------------------------------------------------===//

#include "compiler/pipeline/MicroOrder.h"

using namespace zc;

std::string zc::fasterMicroOrder(const CompileOptions &options, const Prediction &predict) {
  constexpr int64_t kMost = 10000; // operations: placing more takes longer than people wait unasked
  constexpr double kGain = 0.95;   // activations of all micro-steps are kept for it
  if (options.accumulation < 2 || options.forwardOnly || options.offloadParam == "none" ||
      options.stopAfter < Phase::shard)
    return "rolled";
  CompileOptions tried = predicting(options);
  tried.microOrder = "rolled";
  Result<double> rolled = predict(tried);
  if (!rolled && rolled.error().code != Code::budget)
    return "rolled";
  tried.microOrder = "vertical";
  tried.verticalMost = kMost;
  Result<double> vertical = predict(tried);
  return vertical && (!rolled || *vertical < kGain * *rolled) ? "vertical" : "rolled";
}
