//===- Run.h - what the ranks of one process share in a training run --------------------------===//
#pragma once

#include "runtime/plan/Machine.h"
#include "runtime/plan/Schedule.h"
#include "runtime/train/Recording.h"
#include "runtime/train/Resume.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Session.h"
#include "runtime/train/Validation.h"

namespace zc::train {

struct Run : Session {
  Run(const planpb::Plan &plan, const RunOptions &options, const RunControl &control, RunObserver &observer)
      : Session(plan, options, control, observer), options(options) {
    for (const MachineModel::Field &field : MachineModel::kFields)
      limits.*field.rate = 0;
  }

  /// What needs no other rank: the device, the data, the weights of a fresh start, the identity. Kept in `prepared`.
  void prepare();

  /// Whether it was this very plan that is resumed.
  bool samePlan() const { return resumed && resumed->plan.hash == manifest.plan.hash; }
  /// All ranks, once their executors are prepared: the state of the checkpoint to go on from. One that is found to be
  /// damaged is passed over, where another may be meant. `ready` as in Session::begin; then the run is settled.
  Status restore(Communicator &communicator, RankExecutor &executor, bool &ready);
  /// All ranks, once their executors are prepared: the weights of a fresh start. The folder is taken where that
  /// `replaces` nothing. `ready` as in Session::begin.
  Status startFresh(Communicator &communicator, RankExecutor &executor, bool &ready);
  /// All ranks, when nothing but the steps is left to do: whether what comes after them can be done.
  Status checkAhead(Communicator &communicator, bool &ready) {
    return agreeWith(communicator, isFirst(communicator) ? checkOpenFiles() : Status::success(), ready);
  }
  /// All ranks: the folder is this run's from now on, and what it `replaces` is removed. `ready` as in Session::begin.
  Status takeFolder(Communicator &communicator, bool &ready);
  /// Samples of the data consumed after `step`.
  int64_t positionAfter(int64_t step) const;
  /// Rank 0: the folder that somebody has removed, anew, with the metrics so far. Errors: io, also where another run is
  /// in its place.
  Status remakeFolder();
  /// After the last step: the metrics where somebody has removed them, the trace, the profile. Nothing, where the
  /// folder itself is gone: another run may lie there.
  void leaveRecords();
  bool leavesProfile() const { return options.profile && options.profile.last >= summary.firstStep; }
  /// Of this process, before the first step and after the last: others may take of the machine at one of these times.
  void measureLimits();
  /// Whether an evaluation is due after `step`.
  bool evaluatesAfter(int64_t step) const {
    return validation && (step == summary.steps || (options.evalEvery > 0 && step % options.evalEvery == 0));
  }
  /// What evaluations had found when the checkpoint was saved, if it was on these data.
  EvalHistory evaluationsSoFar() const;
  /// Whether that checkpoint was saved before an evaluation that was due, or is the last of a run that had none.
  bool owesEvaluation() const {
    return resumed && (resumed->evaluations || resumed->step == summary.steps) && evaluatesAfter(resumed->step) &&
           evaluationsSoFar().step < resumed->step;
  }

  const RunOptions &options;
  std::optional<Validation> validation; ///< where there are data to evaluate on
  std::optional<Manifest> resumed;
  /// An earlier run lies in the folder, which goes when the first step has shown that this one can take its place.
  bool replaces = false;
  bool ownsFolder = false; ///< it has been taken: files may be written
  Manifest manifest;       ///< what checkpoints of this run say
  Schedule schedule;
  RunFolder folder; ///< rank 0's process
  CheckpointFolder checkpoints;
  MetricsFile metrics;
  RunReport report;    ///< rank 0's
  Recording recording; ///< has its own lock

protected:
  /// The folder, held from now on and still as it was, and the checkpoint to continue from.
  Status open() override;
  /// The other ranks learn the folder and the checkpoint.
  Status share(Communicator &communicator) override;
  std::string flight() const override { return summary.out + "/" + kFlight; }

private:
  Status prepareAll();
  Status prepareValidation();
  Status prepareSteps();
  /// Of this process: whether it can open the files of a save, where saves are asked for. Errors: io.
  Status checkOpenFiles() const;
  void leaveProfile();
  std::string scheduleText() const;
  Status makeSchedule();
  void tell(const std::string &text) { observer.warning(text); }
  /// Rank 0: the newest checkpoint to go on from, if there is one, which is fit for it as far as its heads say.
  Status choose();
  /// Rank 0: nothing changes any more about where the run begins. What it leaves behind and what is otherwise now.
  Status settle();
  /// Rank 0: the same of a run that goes on.
  Status settleResumed();
  Status prepareReplacing();
  /// The other processes learn of `resumed`, where there is one.
  Status shareCheckpoint(Communicator &communicator);
  /// On every process, once `resumed` is known.
  Status goOn();

  std::optional<CheckpointChoice> choice; ///< of rank 0
  double loading = 0;                     ///< seconds
  MachineModel limits;                    ///< of the profile; 0: not measured yet
};

} // namespace zc::train
