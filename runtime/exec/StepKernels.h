//===- StepKernels.h - which kernel a step asks for, and who computes it -----------===//
#pragma once

#include "kernels/cpu/Products.h"
#include "runtime/plan/plan.pb.h"

#include <set>
#include <string>
#include <vector>

namespace zc {

/// What the plan says of a step's kernel; rank, seed and threads are the run's.
KernelSpec kernelSpecOf(const planpb::Plan &plan, const planpb::Step &step);

/// verifyPlan, and that programs of steps are sound for their operands: what a plan's message cannot know without
/// kernels. Errors: those of verifyPlan; corrupt plan with the node of the first step whose program is not.
Status verifyWithPrograms(const planpb::Plan &plan);

/// What of a run decides how a step's kernel computes.
struct KernelSettings {
  int threads = 1;
  const ProductTable *products = nullptr;
};

/// The products that the plan's kernels ask libraries for, on `threads` threads: what a table can decide.
std::set<ProductShape> productsOf(const planpb::Plan &plan, int threads);

/// Who computes `step` where COMPUTE is `target`'s: none where nobody does. `host` has the kernels of a CPU. Errors: a
/// kernel of the host refuses the step.
Result<std::optional<Implementation>> implementationOf(const planpb::Plan &plan, const planpb::Step &step,
                                                       Target target, const KernelRegistry &host,
                                                       const KernelSettings &settings = {});

/// "own", "library: oneDNN"; "no implementation" where nobody does.
std::string nameOf(const std::optional<Implementation> &by);
/// With the way it computes by, where there are several: "library: oneDNN by columns, tuned".
std::string methodOf(const std::optional<Implementation> &by);

/// Errors: steps that nobody computes on `target`, with their number and the first one's node: unsupported, or of a
/// plan for another one mismatch, with the command that compiles its model for this one.
Status checkImplementations(const planpb::Plan &plan, Target target, const KernelRegistry &host);

/// What the user should know of steps that plain loops compute and that matter: of each such kernel a line with how
/// many steps it has, and their share of the predicted step, where that is at least 0.5 % together.
std::vector<std::string> plainLoopNotes(const planpb::Plan &plan, Target target, const KernelRegistry &host);

} // namespace zc
