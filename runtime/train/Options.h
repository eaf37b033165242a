//===- Options.h - what a training run is asked to do -----------------------------===//
#pragma once

#include "runtime/data/InputSource.h"
#include "runtime/exec/Executor.h"

#include <cstdint>
#include <optional>
#include <string>

namespace zc::train {

/// Training steps, both ends included; none where `first` is 0.
struct StepRange {
  int64_t first = 0, last = 0;
  explicit operator bool() const { return first > 0; }
  bool contains(int64_t step) const { return first > 0 && first <= step && step <= last; }
};

/// What training and evaluation are told alike. Defaults are those of the command line.
struct JobOptions {
  std::string plan;  ///< file
  int worldSize = 0; ///< -n; 0: as the plan says
  data::DataOptions data;
  int64_t steps = 0;                ///< 0: see RunOptions, EvalOptions
  std::optional<uint64_t> seed;     ///< of shuffling and of the plan's random numbers; absent: the plan's
  std::string out;                  ///< folder
  std::string weights;              ///< safetensors, or a checkpoint's or a run's folder; empty: the model's
  std::optional<DeviceKind> device; ///< absent: what the plan was compiled for
  bool graphs = true;               ///< on a device with streams, as ExecutorOptions
  int threads = 0;                  ///< per rank; 0: cores / world size
  std::string products;             ///< a table of products, or "none"; empty: the default file, if there is one
  NvmeOptions nvme;                 ///< where the NVMe tier goes
  bool reserve = false;             ///< the arenas' memory is taken before the first step
  LinkRates links{};                ///< to slow down transfers between tiers (ZERO_LINK)
  double watchdog = 300;            ///< seconds a rank may stay in one collective, or wait for one file; 0: for ever
};

/// The flags of `zero-run PLAN` (docs/cli.md), without a plan's own settings. `out` empty: runs/<model's name>. `steps`
/// 0: from `epochs`.
struct RunOptions : JobOptions {
  double epochs = 0;               ///< 0: not given; with no steps either, one epoch; with steps, what is reached first
  std::string schedule;            ///< as Schedule takes it; empty: the plan's
  std::optional<int64_t> warmup;   ///< steps, in place of the schedule's
  std::optional<double> lr;        ///< absent: the plan's
  int64_t saveEvery = 0;           ///< steps; 0: only at the end
  int64_t keep = 0;                ///< newest checkpoints kept; 0: all
  bool savesFinal = true;          ///< a checkpoint at the end
  bool outlivesFailedSave = false; ///< a checkpoint of saveEvery that cannot be written is a warning
  std::string resume;              ///< empty: no; "auto"; or a checkpoint's or a run's folder
  bool overwrite = false;          ///< an earlier run in `out` is removed
  bool dataChanged = false;        ///< a run that goes on may do so on other data, or in another order
  StepRange trace;                 ///< of which a Chrome trace is written
  StepRange profile;               ///< of which is told where time goes
  // The following are of a plan with an evaluation.
  std::string evalData;                ///< as DataOptions::data
  std::vector<std::string> evalTokens; ///< as DataOptions::tokens; read as those of training are
  int64_t evalEvery = 0;               ///< steps between evaluations; 0: only after the last one
  int64_t evalSteps = 0;               ///< of one batch per rank; 0: all samples, once
  bool keepBest = false;               ///< a checkpoint "best" of the lowest loss
  int64_t earlyStop = 0;               ///< evaluations without a lower loss that end the run; 0: none
  bool evaluates() const { return !evalData.empty() || !evalTokens.empty(); }
};

/// Those of `zero-run eval PLAN`. `out` empty: no folder. `steps` 0: all samples, once.
struct EvalOptions : JobOptions {
  std::string outputs; ///< safetensors to write the plan's outputs to; empty: they are not kept
};

} // namespace zc::train
