//===- Options.h - what the grad stage can be told ----------------------------------===//
#pragma once

#include "compiler/options/OptionList.h"
#include "kernels/Target.h"
#include "kernels/UpdateSettings.h"
#include "runtime/plan/Precision.h"

namespace zc {

/// What the backward computes again instead of keeping it.
enum class CheckpointPolicy { none, block, selective };
constexpr std::array<const char *, 3> namesOf(CheckpointPolicy) { return {"none", "block", "selective"}; }

/// Over what the loss is a mean.
enum class LossMean {
  rank,   ///< each rank's micro-step, then these
  global, ///< all labels of all ranks and micro-steps
};
constexpr std::array<const char *, 2> namesOf(LossMean) { return {"rank", "global"}; }

/// Are operations that belong together computed as one?
enum class Fuse {
  off,
  head, ///< a head and its loss, whose sums over rows are cut: nothing else
  on,
};
constexpr std::array<const char *, 3> namesOf(Fuse) { return {"off", "head", "on"}; }

/// The order of dimensions in chains of convolutions.
enum class Layout {
  nchw,      ///< the model's: batch, channels, rows, columns
  automatic, ///< channels last, where that saves rearranging
};
constexpr std::array<const char *, 2> namesOf(Layout) { return {"nchw", "auto"}; }

/// Do operations that can read and write parts of tensors where they are?
enum class Views { off, on };
constexpr std::array<const char *, 2> namesOf(Views) { return {"off", "on"}; }

struct GradOptions {
  bool forwardOnly = false; ///< no backward and no update: of the others, the precisions and `lossMean` count
  Precision precision = Precision::fp32;
  MatmulPrecision matmulPrecision = MatmulPrecision::ieee;
  LossMean lossMean = LossMean::rank;
  Fuse fuse = Fuse::on;
  Layout layout = Layout::automatic;
  Views views = Views::on;
  bool sequenceParallel = false; ///< rows between the regions that the model axis cuts are cut over it as well
  CheckpointPolicy checkpoint = CheckpointPolicy::none;
  int64_t save = -1; ///< selective: bytes at the peak that are wanted back; -1: all that cost little

  UpdateSettings update;
  // of fp16
  double lossScale = 0; ///< 0: dynamic, from the following
  double initialLossScale = 65536, minLossScale = 1;
  int64_t lossScaleWindow = 1000, lossScaleHysteresis = 2;
  bool consecutiveHysteresis = false;
};

/// What the stage is told: that, and what follows from options of other stages.
struct GradStage : GradOptions {
  Target target = Target::cpu; ///< what there are kernels for
  int64_t largestWhole = 0;    ///< bytes of the largest weight of a linear that is not tiled; 0: of any
  int64_t modelRanks = 1;      ///< ranks that share the work on a sample
};

void listOptions(GradOptions &options, OptionList &list);
void listOptions(GradStage &stage, OptionList &list);
/// Do they go together? Errors: usage.
Status validate(const GradStage &stage);

} // namespace zc
