//===- Job.h - the ranks of a job that this process runs -----------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/comm/RankGroup.h"

#include <functional>

namespace zc {

/// What one rank does from start to end, on a thread of its own.
using RankMain = std::function<Status(Communicator &communicator)>;

/// Runs `main` on a thread for each rank of this process and joins them all. The first rank that fails wakes the
/// others. Returns the root cause: the first error that was not another rank's; its `note` names the rank when there
/// are several.
Status runJob(RankGroup &ranks, const RankMain &main);
/// All ranks of a job, as threads.
Status runJob(const Mesh &mesh, const RankMain &main);

} // namespace zc
