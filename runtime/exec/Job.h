//===- Job.h - all ranks of a job in one process ------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"

#include <functional>

namespace zc {

/// What one rank does from start to end, on a thread of its own.
using RankMain = std::function<Status(Communicator &communicator)>;

/// Runs `main` on `worldSize` threads over an inproc group and joins them all. The first rank that fails wakes the
/// others. Returns the root cause: the first error that was not another rank's; its `note` names the rank when there
/// are several.
Status runJob(int worldSize, int ranksPerNode, const RankMain &main);

} // namespace zc
