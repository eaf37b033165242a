//===- StreamRuns.h - steps that a stream is given in one go -----------------------===//
#pragma once

#include "runtime/device/Stream.h"
#include "runtime/exec/PreparedPlan.h"

#include <functional>
#include <memory>
#include <vector>

namespace zc {

/// Steps of one stream, one behind the other, of which only the first waits for other queues and only the last is
/// waited for; several only if each is repeatable (DeviceKernel). Enqueued where its first one stands in the plan, all
/// of it: no step in between can be waited for by what the others need, since waits point backward.
struct StreamRun {
  std::vector<const PreparedStep *> steps; ///< at least one, in plan order
  bool isKnown = false;                    ///< was enqueued before
  bool isRefused = false;                  ///< could not be captured: its steps go one by one
  std::unique_ptr<Graph> graph;            ///< once it was captured
};

/// Cuts the steps of a section that streams have, in plan order; runs are in the order of their first steps. `steps`
/// stays where it is. `isAwaited`: does another queue, or the host, wait for the step? Steps that publish or agree
/// (PreparedStep), which are not the same each time, are runs of their own.
std::vector<StreamRun> findRuns(const std::vector<PreparedStep> &steps,
                                const std::function<bool(const PreparedStep &)> &isAwaited);

/// Waits for the last load_input that each stream has in a micro-step.
std::vector<PreparedWait> lastInputs(const PreparedPlan &prepared);

} // namespace zc
