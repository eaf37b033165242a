//===- Run.h - what the ranks of one process share -----------------------------------------===//
#pragma once

#include "runtime/train/Agreement.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Schedule.h"
#include "runtime/train/TraceFile.h"
#include "runtime/train/Train.h"
#include "runtime/train/Watchdog.h"
#include "runtime/train/Weights.h"

namespace zc::train {

/// Written by the main thread before the ranks start, and then only by the process's first rank (and, where said, rank
/// 0), before a barrier that the others pass before they read.
struct Run {
  Run(const planpb::Plan &plan, const RunOptions &options, const RunControl &control, RunObserver &observer,
      RankGroup &ranks)
      : plan(plan), options(options), control(control), observer(observer), ranks(ranks) {}

  /// What needs no other rank: the device, the data, the weights of a fresh start, the identity. Kept in `prepared`.
  void prepare();
  /// Rank 0: the folder, held from now on, the checkpoint to continue from, metrics.jsonl.
  Status openFolder();
  /// All ranks, after openFolder: the others learn the folder and the checkpoint.
  Status shareFolder(Communicator &communicator);
  /// Where the ranks of this process note their collectives, and the watchdog over them. `create` is rank 0's turn.
  Status record(bool create);

  bool isFirst(const Communicator &communicator) const { return communicator.rank() == ranks.firstRank(); }

  const planpb::Plan &plan;
  const RunOptions &options;
  const RunControl &control;
  RunObserver &observer;
  RankGroup &ranks;

  Status prepared;
  Identity identity;
  KernelRegistry registry;
  DeviceKind device = DeviceKind::cpu;
  std::unique_ptr<data::InputSource> source;
  std::optional<InitialValues> values; ///< of a fresh start
  std::optional<Manifest> resumed;
  Manifest manifest; ///< what checkpoints of this run say
  Schedule schedule;
  RunFolder folder; ///< rank 0's process
  MetricsFile metrics;
  RunSummary summary;
  uint64_t seed = 0;
  std::unique_ptr<FlightRecorder> recorder;
  Watchdog watchdog; // after the recorder, which it reads

  RunReport report;            ///< rank 0's
  std::optional<Error> ending; ///< why the run ended early, though no rank failed; the same for all processes
  TraceFile trace;             ///< has its own lock

private:
  Status prepareAll();
  Status prepareData();
  Status prepareWeights();
};

} // namespace zc::train
