//===- EvalLoss.h - the loss of a data set, batch by batch ------------------------------------===//
//
// Batch k of the data is its samples [k*B, (k+1)*B), B the rows of a batch; data-parallel rank r of step s computes
// batch s*D + r. The loss is the mean of the losses of whole batches, added up in data order, so it is the same number
// for any number of ranks; where the plan hands over the losses' weights it is the mean by these. Where samples at the
// end do not fill a batch, its other rows have ignored labels, and its loss counts by its samples, if the plan says
// that such rows change nothing (Output.by_labels); of another plan they are not in the loss (the mean over a batch
// that repeats others is the loss of no data set).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/data/InputSource.h"
#include "runtime/train/OutputTable.h"

#include <algorithm>

namespace zc::train {

/// What of a data set a forward-only plan evaluates, which of its outputs are the loss and its weight (-1: none), and
/// whether the loss's exponential is a perplexity.
struct EvalScope {
  EvalExtent extent;
  int64_t steps = 0;
  int lossOutput = -1, weightOutput = -1;
  bool isLikelihood = false;
  bool fillsUp = false; ///< the last batch, with ignored labels

  bool hasLoss() const { return lossOutput >= 0; }
  /// Of `samples`, those that are not in the loss, if there is one.
  int64_t leftOut() const { return fillsUp || !hasLoss() ? 0 : extent.samples % extent.rows; }
  /// Samples of batch `index` that are in the loss.
  int64_t samplesOf(int64_t index) const {
    return std::clamp(extent.samples - leftOut() - index * extent.rows, int64_t(0), extent.rows);
  }
  int64_t batches() const { return (extent.samples - leftOut() + extent.rows - 1) / extent.rows; }
  std::string textOfLeftOut() const;
  /// `most` steps, or, where it is 0, all of the `samples`. Errors: mismatch when there is a loss but no batch of it.
  static Result<EvalScope> of(const planpb::Plan &plan, const data::BatchSpec &batch, int64_t samples, int64_t most);
};

/// One rank's view of it; all ranks come to the same numbers. `scope` is looked at from the first step on.
class EvalLoss {
public:
  EvalLoss(const planpb::Plan &plan, const EvalScope &scope, Communicator &communicator)
      : plan(plan), scope(scope), communicator(communicator) {}

  /// Before each step, from 1 on; the first one begins anew.
  void begin(int64_t step);
  /// Takes note of an output of the step, on any thread.
  void store(uint32_t output, const void *source);
  /// When the step is over, on all ranks: exchanges their losses. `stop`: this rank was told to stop.
  Status exchange(bool stop);
  /// Whether any rank was told to.
  bool isToStop() const { return stops; }
  /// Whether a label has counted so far.
  bool counts() const { return total > 0; }
  /// NaN where none has.
  double mean() const { return sum / total; }

private:
  /// What a rank tells of a step.
  struct Pulse {
    double loss = 0, weight = 1;
    uint64_t stop = 0;
  };

  const planpb::Plan &plan;
  const EvalScope &scope;
  Communicator &communicator;
  Pulse mine;
  std::vector<Pulse> pulses; ///< by rank
  double sum = 0, total = 0; ///< of losses times weights, of weights
  int64_t current = 0;       ///< the step that is run
  bool stops = false;
};

} // namespace zc::train
