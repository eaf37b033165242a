//===- Workers.h - a list of work, done by a few threads ----------------------------------------===//
#pragma once

#include "base/Status.h"

#include <cstddef>
#include <functional>

namespace zc {

/// Does `work(worker, index)` for each index below `count`, begun in their order, on at most `threads` threads, this
/// one among them; `worker` < `threads` tells who does it, for buffers. After an error nothing more is begun. The
/// threads are of this one's rank and step (setFaultContext) and leave signals to others; where the system gives none,
/// fewer do it all. Errors: of the lowest index that failed; what `work` throws is thrown when all have come back.
Status forEachOf(size_t count, int threads, const std::function<Status(int worker, size_t index)> &work);

} // namespace zc
