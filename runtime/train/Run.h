//===- Run.h - what the ranks of one process share in a training run --------------------------===//
#pragma once

#include "runtime/train/RunFolder.h"
#include "runtime/train/Schedule.h"
#include "runtime/train/Session.h"
#include "runtime/train/TraceFile.h"

namespace zc::train {

struct Run : Session {
  Run(const planpb::Plan &plan, const RunOptions &options, const RunControl &control, RunObserver &observer)
      : Session(plan, options, control, observer), options(options) {}

  /// What needs no other rank: the device, the data, the weights of a fresh start, the identity. Kept in `prepared`.
  void prepare();

  const RunOptions &options;
  std::optional<Manifest> resumed;
  Manifest manifest; ///< what checkpoints of this run say
  Schedule schedule;
  RunFolder folder; ///< rank 0's process
  MetricsFile metrics;
  RunReport report; ///< rank 0's
  TraceFile trace;  ///< has its own lock

protected:
  /// The folder, held from now on, the checkpoint to continue from, metrics.jsonl.
  Status open() override;
  /// The other ranks learn the folder and the checkpoint.
  Status share(Communicator &communicator) override;
  std::string flight() const override { return summary.out + "/.flight"; }

private:
  Status prepareAll();
  Status prepareSteps();
};

} // namespace zc::train
