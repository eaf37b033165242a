//===- Session.h - what the ranks of one process share, training or evaluating ----------------===//
#pragma once

#include "runtime/exec/ProductFile.h"
#include "runtime/train/Agreement.h"
#include "runtime/train/Options.h"
#include "runtime/train/RunControl.h"
#include "runtime/train/Watchdog.h"
#include "runtime/train/Weights.h"

#include <mutex>
#include <set>

namespace zc::train {

/// Written by the main thread before the ranks start, and then only by the process's first rank (and, where said, rank
/// 0), before a barrier that the others pass before they read.
struct Session {
  /// Where `control` brings no ranks, they are threads of this process.
  Session(const planpb::Plan &plan, const JobOptions &job, const RunControl &control, RunObserver &observer);
  virtual ~Session() = default;

  /// World, machines, kernels: what needs neither data nor weights.
  Status prepareJob();
  /// What --device names, or the plan is for. Errors: usage, unsupported.
  Status chooseDevice();
  /// The device and the data; `summary` without steps.
  Status prepareData();
  /// The weights of a fresh start, the model's or the user's.
  Status prepareWeights();
  /// What the ranks must have alike, once the steps are known; `options` is a hash of the others.
  Status identify(uint64_t options);

  /// All ranks: everything before the executors are prepared. `ready` if all of them are and are alike; else the run
  /// ends here with the same error everywhere.
  Status begin(Communicator &communicator, bool &ready);
  /// All ranks: the weights of a fresh start, in place, and the same on all of them; else as `begin`.
  Status loadFirstWeights(Communicator &communicator, RankExecutor &executor, bool &ready);
  /// A rank's executor, of whose notes all ranks tell.
  Result<std::unique_ptr<RankExecutor>> prepareExecutor(const planpb::Plan &ofPlan, Communicator &communicator,
                                                        const ExecutorOptions &options, InputLoader &loader);
  /// All ranks: each warning once, by the lowest rank that has it.
  Status warn(Communicator &communicator, const std::vector<std::string> &warnings);
  /// The run ends though nothing failed; all ranks call this alike.
  void endWith(const Communicator &communicator, Error why) {
    if (isFirst(communicator))
      ending = std::move(why);
  }
  bool isToldToStop() const { return control.stop && control.stop->load(std::memory_order_relaxed) > 0; }
  bool isFirst(const Communicator &communicator) const { return communicator.rank() == ranks.firstRank(); }
  /// How a rank's executor is to be prepared.
  ExecutorOptions executorOptions() const;

  const planpb::Plan &plan;
  const Mesh mesh; ///< of the plan
  const JobOptions &job;
  const RunControl &control;
  RunObserver &observer;
  std::unique_ptr<RankGroup> threads;
  RankGroup &ranks;

  Status prepared;
  Identity identity;
  KernelRegistry registry;
  ProductsInUse products;
  DeviceKind device = DeviceKind::cpu;
  data::BatchSpec batch;
  std::unique_ptr<data::InputSource> source;
  std::optional<InitialValues> values; ///< of a fresh start
  RunSummary summary;
  uint64_t seed = 0;
  MemoryWatch memory; ///< looked at by this process's first rank
  std::unique_ptr<FlightRecorder> recorder;
  Watchdog watchdog; // after the recorder, which it reads

  std::optional<Error> ending; ///< why the run ended early, though no rank failed; the same for all processes

protected:
  /// Rank 0: makes what the run writes to.
  virtual Status open() = 0;
  /// All ranks, after `open`: the other processes learn of it.
  virtual Status share(Communicator &communicator) = 0;
  /// The file in which several processes share their recorders; empty: nobody watches their collectives.
  virtual std::string flight() const = 0;
  /// Where the ranks of this process note their collectives, which the watchdog then sees. `create`, rank 0's turn,
  /// makes the shared file anew.
  Status record(bool create);

  /// `ready` if all ranks' `prepared` are without error and they are alike; else the run ends here (begin).
  Status agreeWith(Communicator &communicator, const Status &prepared, bool &ready);

  /// Data as `options` say, for the inputs of `batch`. One process looks at all of them before anything is computed,
  /// unless they are too long for that.
  Result<std::unique_ptr<data::InputSource>> openData(const data::DataOptions &options, const data::BatchSpec &batch);

private:
  std::mutex warnedMutex;
  std::set<std::string> warned; ///< of, by all ranks of this process

  Status agreeOn(Communicator &communicator, const Identity &mine, const Status &prepared, bool &ready);
  void tellOfData();
  /// The table that decides products, and that it is used.
  Status prepareProducts();
  Status checkAddresses() const;
};

/// Gives an executor data, which are there once the run is prepared.
class RankLoader : public InputLoader {
public:
  RankLoader(const std::unique_ptr<data::InputSource> &source, const Mesh &mesh, int rank)
      : source(source), dataRank(mesh.indexOf(mesh.dataAxes(), rank)) {}
  Status load(uint32_t input, const StepContext &context, void *destination, uint64_t) override {
    return source->load(input, context.step - 1, context.micro, dataRank, destination);
  }

private:
  const std::unique_ptr<data::InputSource> &source;
  int dataRank;
};

/// `sum` += `after` - `before`
void addDifference(Traffic &sum, const Traffic &before, const Traffic &after);

} // namespace zc::train
