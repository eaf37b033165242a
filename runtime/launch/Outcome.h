//===- Outcome.h - what became of a job -----------------------------------------------===//
#pragma once

#include "runtime/launch/Hosts.h"

#include <cstdint>

namespace zc::launch {

/// Which ranks did not start within `seconds`.
Error notAll(const std::vector<Host> &hosts, const std::vector<bool> &started, double seconds);

/// The exit code of ranks, one of which has said why: there is nothing more to say.
Error toldBefore(int code);

/// From mpirun's status, as waitpid has it, and its words. `out`: the run's folder; `oomKillsBefore`: oomKills before
/// the job.
Status outcomeOf(int status, const std::string &words, const std::string &out, uint64_t oomKillsBefore);

} // namespace zc::launch
