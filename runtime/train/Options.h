//===- Options.h - what a training run is asked to do -----------------------------===//
#pragma once

#include "runtime/data/InputSource.h"
#include "runtime/exec/Executor.h"

#include <cstdint>
#include <optional>
#include <string>

namespace zc::train {

/// The flags of `zero-run PLAN` (CLI.md), without a plan's own settings. Defaults are those of the command line.
struct RunOptions {
  std::string plan;  ///< file
  int worldSize = 0; ///< -n; 0: as the plan says
  data::DataOptions data;
  int64_t steps = 0;            ///< 0: from `epochs`
  double epochs = 0;            ///< 0: not given; both 0 is one epoch
  std::optional<uint64_t> seed; ///< of shuffling and of the plan's random numbers; absent: the plan's
  std::string schedule = "constant";
  int64_t warmup = 0;              ///< steps
  std::optional<double> lr;        ///< absent: the plan's
  std::string out;                 ///< empty: runs/<model's name>
  int64_t saveEvery = 0;           ///< steps; 0: only at the end
  int64_t keep = 0;                ///< newest checkpoints kept; 0: all
  bool outlivesFailedSave = false; ///< a checkpoint of saveEvery that cannot be written is a warning
  std::string resume;              ///< empty: no; "auto"; or a checkpoint's folder
  std::string weights;             ///< safetensors; empty: the model's
  std::string device = "cpu";
  int threads = 0;       ///< per rank; 0: cores / world size
  NvmeOptions nvme;      ///< where the NVMe tier goes
  LinkRates links{};     ///< to slow down transfers between tiers (ZERO_LINK)
  int64_t traceFrom = 0; ///< steps from 1, inclusive; 0: no trace
  int64_t traceTo = 0;
  double watchdog = 300; ///< seconds a rank may stay in one collective; 0: for ever
};

} // namespace zc::train
