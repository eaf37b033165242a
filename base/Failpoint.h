//===- Failpoint.h - faults on demand, for tests -------------------------------===//
//
// A failpoint is a named place in the program where a test can make something go wrong. They are compiled in and off
// unless the program is given rules (environment variable ZERO_FAULT):
//
//   rules     = rule (';' rule)*
//   rule      = site ['@' selector (',' selector)*] ':' action
//   selector  = 'rank=' R | 'step=' S | 'n=' K | 'n=' K '+'      the K-th passage that fits, or it and all later ones
//   action    = an errno's name (ENOSPC, EIO, ...) | a signal's (SIGKILL, SIGSTOP, ...) | 'delay=' T ('s' or 'ms')
//             | 'crash' | 'exit=' N | 'short' | 'flip'
//
//   ZERO_FAULT="spill.write@rank=1,n=3:ENOSPC; step.begin@rank=2,step=5:SIGKILL;
//   coll.allreduce@rank=0,step=4:delay=10s"
//
// A rule without `n` holds for every passage. `crash` ends the process at once, as a power cut would.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace zc {

/// What a site itself must do about a fault; delays, signals and ends have happened by then.
struct FaultAction {
  enum class Kind : uint8_t {
    error,   ///< fail as if the system had said `errnum`
    shorten, ///< transfer fewer bytes than asked
    flip,    ///< change one bit of the data
  };
  Kind kind = Kind::error;
  int errnum = 0;
};

namespace detail {
extern std::atomic<bool> anyFailpoints;
std::optional<FaultAction> passFailpoint(const char *site);
} // namespace detail

/// Replaces all rules; an empty text turns failpoints off. Errors: usage, naming the rule, or a
/// site that there is not (Failpoint.cpp has them all).
Status setFailpoints(const std::string &text);

/// How often each place was passed since rules were set, by any thread: what a test that fails them one by one counts.
std::map<std::string, int64_t> passedFailpoints();

/// Says for which rank and optimizer step this thread works from now on; without, rules that select them do not fit.
void setFaultContext(int rank, int64_t step);
/// What was said, -1 if nothing was.
int faultRank();
int64_t faultStep();

/// Passes the place `site` on this thread. Costs a load when no rules are set. A site ignores actions that make no
/// sense there.
inline std::optional<FaultAction> failpoint(const char *site) {
  if (!detail::anyFailpoints.load(std::memory_order_relaxed))
    return std::nullopt;
  return detail::passFailpoint(site);
}

} // namespace zc
