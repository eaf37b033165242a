//===- PrepareRank.h - an executor of the kind that is asked for ----------------------===//
#pragma once

#include "runtime/exec/Executor.h"

namespace zc {

/// `plan` must have passed verifyPlan and, like the other references, outlive the executor.
/// Errors: another world size than the communicator's (mismatch), unknown kernel (corrupt), operands or attributes a
/// kernel refuses, memory that cannot be mapped (budget), an NVMe tier without a folder (usage) or that its disk does
/// not take (io).
Result<std::unique_ptr<RankExecutor>> prepareRank(const planpb::Plan &plan, const ExecutorOptions &options,
                                                  Communicator &communicator, const KernelRegistry &registry,
                                                  InputLoader &loader);

} // namespace zc
