//===- ThreadShares.h - how the threads of a rank are divided among its queues ---------===//
#pragma once

#include "runtime/plan/plan.pb.h"

namespace zc {

/// Fills in the shares of a plan that has all the rest, by what runs beside what when its expected seconds are played
/// (Timeline.h): the host's update and copies beside forward and backward, of this step or of the next. Where all
/// queues took all threads, those would take cores from the kernels that everybody waits for.
///
/// COMPUTE has all: its kernels are cut into a part per thread, of which fewer threads would do some in a second round.
/// Another queue whose work mostly falls beside COMPUTE's has as much as it needs to be done in the time that COMPUTE
/// takes; one that mostly works alone has all. No shares for what a GPU computes: no queue takes threads from it.
void divideThreads(planpb::Plan &plan);

} // namespace zc
