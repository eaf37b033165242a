//===- Options.h - what the shard stage can be told ---------------------------------===//
#pragma once

#include "compiler/options/OptionList.h"

namespace zc {

/// What gradients are kept in once they are summed over ranks.
enum class GradAccumDtype {
  parameters, ///< their type
  fp32,       ///< sums over ranks and micro-steps are not rounded to 16 bits
};
constexpr std::array<const char *, 2> namesOf(GradAccumDtype) { return {"parameters", "fp32"}; }

/// How gathered parameters travel (qwZ).
enum class WeightFormat { none, int8 };
constexpr std::array<const char *, 2> namesOf(WeightFormat) { return {"none", "int8"}; }

/// How gradients travel (qgZ).
enum class GradientFormat { none, int4, int8 };
constexpr std::array<const char *, 3> namesOf(GradientFormat) { return {"none", "int4", "int8"}; }

/// Where what leaves the device goes.
enum class Offload { none, host, nvme };
constexpr std::array<const char *, 3> namesOf(Offload) { return {"none", "host", "nvme"}; }

/// What follows what where a step has several micro-steps.
enum class MicroOrder {
  automatic, ///< the faster; taken for `rolled` by the stage
  rolled,    ///< one micro-step after the other
  vertical,  ///< all micro-steps of a block before the next block
};
constexpr std::array<const char *, 3> namesOf(MicroOrder) { return {"auto", "rolled", "vertical"}; }

/// Where the model axis stands among the data axes.
enum class ModelPlace {
  innermost,   ///< node, local, model: its ranks stand next to each other
  beforeLocal, ///< node, model, local
  outermost,   ///< model, node, local
};
constexpr std::array<const char *, 3> namesOf(ModelPlace) { return {"innermost", "before-local", "outermost"}; }

struct ShardOptions {
  int64_t worldSize = 1, ranksPerNode = 0; ///< 0: all
  int64_t model = 1;                       ///< ranks of a node that share the work on a sample
  ModelPlace modelPlace = ModelPlace::innermost;
  bool partitionActivations = false; ///< what recomputation begins with is kept in parts over those (Pa)
  int64_t stage = 0;
  int64_t accumulation = 1; ///< micro-steps per step
  GradAccumDtype gradAccumDtype = GradAccumDtype::parameters;
  int64_t bucketSize = 26214400; ///< bytes at which a bucket is full
  int64_t tileLinear = 0;        ///< bytes of the largest weight of a linear that stays whole; 0: all, -1: bucketSize

  WeightFormat quantizeWeights = WeightFormat::none;
  GradientFormat quantizeGradients = GradientFormat::none;
  int64_t quantizeBlock = 0; ///< elements per scale, even; 0: as weights and gradients need them
  bool errorFeedback = false, hierarchical = false, hierarchicalCollectives = false;

  Offload offloadOptimizer = Offload::none, offloadParam = Offload::none, offloadActivation = Offload::none;
  double offloadRatio = 1; ///< share of the update done on the host
  bool delayUpdate = false;
  int64_t delayAfter = 40; ///< steps after which updates are delayed by one

  MicroOrder microOrder = MicroOrder::automatic;
  int64_t verticalMost = 100000; ///< operations of all micro-steps that may stand in a plan
  int64_t residency = -1; ///< bytes for parameters kept whole where they would be cut; -1: what the budgets leave
  // What the budgets leave, and other sizes that follow from them.
  int64_t resident = 0;       ///< bytes for parameters that every rank keeps whole; not with quantizeWeights
  int64_t residentOnHost = 0; ///< bytes for parameters that stay on the host instead of in a file
  int64_t gradientsOnHost = int64_t(1) << 62; ///< bytes for gradients that wait on the host for an update of the file
  int64_t readAhead = 0;   ///< bytes for state read from the file before updates that wait for all gradients
  int64_t chunk = 4 << 20; ///< bytes of fp32 that go through host buffers at once

  /// Ranks that have other samples.
  int64_t dataDegree() const { return worldSize / model; }
  int64_t perNode() const { return ranksPerNode == 0 ? worldSize : ranksPerNode; }
  bool offloads() const {
    return offloadOptimizer != Offload::none || offloadParam != Offload::none || offloadActivation != Offload::none;
  }
  bool isVertical() const { return microOrder == MicroOrder::vertical; }
  /// Bytes of the largest weight of a linear that zero-tile-linear leaves whole.
  int64_t tileBytes() const { return tileLinear > 0 ? tileLinear : bucketSize; }
};

void listOptions(ShardOptions &options, OptionList &list);
/// Do they go together? Errors: usage.
Status validate(const ShardOptions &options);

} // namespace zc
