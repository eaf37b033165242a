//===- Auto.cpp - the fastest plan within the budgets -----------------------------------===//

#include "compiler/pipeline/Auto.h"
#include "compiler/pipeline/Driver.h"

#include "llvm/Support/FormatVariadic.h"

#include <chrono>
#include <cstdio>
#include <optional>

using namespace zc;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience(60);

/// Where activations, optimizer and parameters are, from what moves least to what moves most over the slowest link.
struct Placement {
  const char *activation, *optimizer, *param;
};
constexpr Placement kPlacements[] = {{"none", "none", "none"}, {"none", "host", "none"}, {"host", "none", "none"},
                                     {"none", "host", "host"}, {"host", "host", "none"}, {"host", "host", "host"},
                                     {"none", "nvme", "none"}, {"none", "nvme", "host"}, {"host", "nvme", "host"},
                                     {"none", "nvme", "nvme"}, {"host", "nvme", "nvme"}, {"nvme", "nvme", "nvme"}};

class Choosing {
public:
  Choosing(const CompileOptions &given, const Freedom &freedom) : options(given), freedom(freedom) {
    options = predicting(options);
    options.microOrder = "rolled";
  }

  /// Errors: those of a compilation that no choice makes better.
  Status run() {
    // Smaller buckets come last: they are more steps in every placement.
    ZC_RETURN_IF_ERROR(tryPlacements());
    for (int64_t kibibytes : {1024, 128, 16}) {
      if (best || !freedom.bucketSize || kibibytes * 1024 >= options.bucketSize)
        continue;
      options.bucketSize = kibibytes * 1024;
      ZC_RETURN_IF_ERROR(tryPlacements());
    }
    return Status::success();
  }

  std::optional<CompileOptions> best;
  double seconds = 0; ///< of the best
  int tried = 0, fitting = 0;

private:
  Status tryPlacements() {
    for (const Placement &placement : kPlacements) {
      if (!isFree(placement))
        continue;
      for (int64_t stage : stages())
        for (const std::string &recomputation : recomputations()) {
          CompileOptions tried = options;
          tried.stage = stage;
          tried.checkpointActivations = recomputation;
          tried.offloadActivation = placement.activation;
          tried.offloadOptimizer = placement.optimizer;
          tried.offloadParam = placement.param;
          if (tried.placementIsValid() && Clock::now() - start < kPatience)
            ZC_RETURN_IF_ERROR(attempt(tried));
        }
      if (best)
        break;
    }
    return Status::success();
  }

  bool isFree(const Placement &placement) const {
    return (freedom.offloadActivation || options.offloadActivation == placement.activation) &&
           (freedom.offloadOptimizer || options.offloadOptimizer == placement.optimizer) &&
           (freedom.offloadParam || options.offloadParam == placement.param);
  }

  std::vector<int64_t> stages() const {
    if (!freedom.stage || options.worldSize == 1)
      return {options.stage};
    return {0, 1, 2, 3};
  }

  std::vector<std::string> recomputations() const {
    if (!freedom.recomputation || options.forwardOnly)
      return {options.checkpointActivations};
    return {"none", "selective", "block"};
  }

  Status attempt(const CompileOptions &candidate) {
    Result<CompileResult> compiled = compile(candidate);
    ++tried;
    if (!compiled)
      return compiled.error().code == Code::budget || compiled.error().code == Code::unsupported
                 ? Status::success()
                 : Status(compiled.error());
    ++fitting;
    if (!best || compiled->predictedSeconds < seconds) {
      best = candidate;
      seconds = compiled->predictedSeconds;
    }
    return Status::success();
  }

  const Clock::time_point start = Clock::now();
  CompileOptions options;
  Freedom freedom;
};

} // namespace

Result<AutoChoice> zc::chooseFastest(const CompileOptions &options, const Freedom &freedom) {
  Choosing choosing(options, freedom);
  ZC_RETURN_IF_ERROR(choosing.run());
  if (!choosing.best) // its message says how much is missing
    return AutoChoice{options, llvm::formatv("none of {0} plans tried fits", choosing.tried)};
  AutoChoice choice{options, "chose"};
  auto take = [&](bool isFree, const char *flag, auto &field, const auto &value, const std::string &text) {
    if (!isFree)
      return;
    field = value;
    choice.text += std::string(" ") + flag + " " + text;
  };
  const CompileOptions &best = *choosing.best;
  take(freedom.stage && options.worldSize > 1, "--zero-stage", choice.options.stage, best.stage,
       std::to_string(best.stage));
  take(freedom.recomputation && !options.forwardOnly, "--checkpoint-activations", choice.options.checkpointActivations,
       best.checkpointActivations, best.checkpointActivations);
  take(freedom.offloadOptimizer, "--offload-optimizer", choice.options.offloadOptimizer, best.offloadOptimizer,
       best.offloadOptimizer);
  take(freedom.offloadParam, "--offload-param", choice.options.offloadParam, best.offloadParam, best.offloadParam);
  take(freedom.offloadActivation, "--offload-activation", choice.options.offloadActivation, best.offloadActivation,
       best.offloadActivation);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", choosing.seconds);
  if (best.bucketSize != options.bucketSize)
    take(true, "--bucket-size", choice.options.bucketSize, best.bucketSize,
         std::to_string(best.bucketSize / 1024) + "KiB");
  choice.text += llvm::formatv(": {0} s per step predicted; {1} of {2} plans tried fit", seconds, choosing.fitting,
                               choosing.tried);
  return choice;
}
