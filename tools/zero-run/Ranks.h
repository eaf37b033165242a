//===- Ranks.h - this process as all ranks of a job, or as one of them ---------------------------------===//
#pragma once

#include "runtime/comm/RankGroup.h"
#include "runtime/plan/plan.pb.h"
#include "tools/zero-run/Flags.h"

#include <functional>

namespace zc::run {

/// What this process's ranks do with a verified plan; no group: all ranks, as threads.
using RanksMain = std::function<Status(const planpb::Plan &plan, RankGroup *ranks)>;

/// Reads the plan, meets the other processes where a launcher started several, and calls `main`.
Status runAsRanks(const Flags &flags, const RanksMain &main);

/// Says the error as one process of several: what all have alike is rank 0's to say; what only this one has ends the
/// others too.
Status endRank(RankGroup &ranks, const Error &error);

/// --threads, or what a run of all the plan's ranks on this machine gives each of them.
int threadsOf(const Flags &flags, const planpb::Plan &plan);

} // namespace zc::run
