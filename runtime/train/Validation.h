//===- Validation.h - evaluating between the steps of a training ------------------------------===//
//
// A plan with an evaluation (Evaluation.h) is run over a second data set whenever that is due: by an executor of its
// own, over the memory of the one that trains, which is drained then. It changes nothing of what training goes on from.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/train/EvalLoss.h"
#include "runtime/train/Session.h"

namespace zc::train {

/// What the ranks of one process share of it, prepared before they start.
struct Validation {
  planpb::Plan plan; ///< the evaluation as a plan by itself
  data::BatchSpec batch;
  std::unique_ptr<data::InputSource> source;
  EvalScope scope;
  uint64_t fingerprint = 0; ///< of the data

  /// Without data. Errors: usage, when `plan` has no evaluation.
  static Result<Validation> of(const planpb::Plan &plan, const std::string &file);
};

/// What `options` say of the data to evaluate on.
data::DataOptions evalDataOf(const RunOptions &options);
/// An error of these data, by the names of their flags.
Error namedForEval(Error error);

/// One rank's.
class Validator : public OutputSink {
public:
  Validator(Session &session, const Validation &shared, Communicator &communicator)
      : session(session), shared(shared), communicator(communicator),
        loader(shared.source, session.mesh, communicator.rank()), losses(shared.plan, shared.scope, communicator) {}

  /// Beside the executor that trains, which must outlive this.
  Status prepare(RankExecutor &training);
  /// All of the data once, on all ranks, while nothing else runs. Nothing where a rank was told to stop on the way.
  Result<std::optional<EvalRecord>> evaluate();

  Status store(uint32_t output, const StepContext &, const void *source, uint64_t) override {
    losses.store(output, source);
    return Status::success();
  }

private:
  /// A running statistic: each rank has its own. All evaluate with rank 0's, as whoever evaluates a checkpoint does.
  struct Statistic {
    uint32_t slice = 0;
    std::vector<char> own, common;
  };
  Status takeCommonStatistics();
  Status putBackStatistics();
  Result<std::optional<EvalRecord>> evaluateAll();

  Session &session;
  const Validation &shared;
  Communicator &communicator;
  RankLoader loader;
  EvalLoss losses;
  RankExecutor *training = nullptr;
  std::unique_ptr<RankExecutor> executor;
  std::vector<Statistic> statistics; ///< with several ranks
};

} // namespace zc::train
