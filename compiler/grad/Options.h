//===- Options.h - what the grad stage can be told ----------------------------------===//
#pragma once

#include "compiler/options/OptionList.h"
#include "kernels/Target.h"

namespace zc {

/// Type of parameters and gradients; master weights and optimizer state are fp32 in any case.
enum class Precision { fp32, bf16, fp16 };
constexpr std::array<const char *, 3> namesOf(Precision) { return {"fp32", "bf16", "fp16"}; }

/// What the backward computes again instead of keeping it.
enum class CheckpointPolicy { none, block, selective };
constexpr std::array<const char *, 3> namesOf(CheckpointPolicy) { return {"none", "block", "selective"}; }

/// Over what the loss is a mean.
enum class LossMean {
  rank,   ///< each rank's micro-step, then these
  global, ///< all labels of all ranks and micro-steps
};
constexpr std::array<const char *, 2> namesOf(LossMean) { return {"rank", "global"}; }

/// torch.optim's AdamW, Adam, SGD, and SGD with momentum; named as graph::Optimizer.
enum class UpdateRule { adamw, adam, sgd, momentum };
constexpr std::array<const char *, 4> namesOf(UpdateRule) { return {"adamw", "adam", "sgd", "momentum"}; }

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
  bool forwardOnly = false;              ///< no backward and no update: of the others, `precision` and `lossMean` count
  Precision precision = Precision::fp32; ///< with fp16 the loss is scaled
  LossMean lossMean = LossMean::rank;
  Fuse fuse = Fuse::on;
  Layout layout = Layout::automatic;
  Views views = Views::on;
  Target target = Target::cpu; ///< ScheduleOptions' `target`: what there are kernels for
  int64_t largestWhole = 0;    ///< bytes of the largest weight of a linear that is not tiled; 0: of any (ShardOptions)
  int64_t modelRanks = 1;      ///< ranks that share the work on a sample: ShardOptions' `model`
  bool sequenceParallel = false; ///< rows of what is between the regions that these cut are cut over them as well
  CheckpointPolicy checkpoint = CheckpointPolicy::none;
  int64_t save = -1; ///< selective: bytes at the peak that are wanted back; -1: all that cost little

  UpdateRule rule = UpdateRule::adamw;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, momentum = 0.9;
  std::string lrSchedule;           ///< as zc::Schedule takes it; empty: constant
  double weightDecay = -1;          ///< negative: torch's default of the rule
  std::vector<std::string> noDecay; ///< globs of parameters without weight decay
  double clipGradNorm = 0;          ///< 0: no clipping
  // of fp16
  double lossScale = 0; ///< 0: dynamic, from the following
  double initialLossScale = 65536, minLossScale = 1;
  int64_t lossScaleWindow = 1000, lossScaleHysteresis = 2;
  bool consecutiveHysteresis = false;
};

void listOptions(GradOptions &options, OptionList &list);
/// Of parameters that have none of their own.
double weightDecayOf(const GradOptions &options);
/// Do they go together? Errors: usage.
Status validate(const GradOptions &options);

} // namespace zc
