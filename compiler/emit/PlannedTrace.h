//===- PlannedTrace.h - a plan's steps over time, as a file -------------------------------===//
#pragma once

#include "compiler/schedule/Timeline.h"

#include <string>

namespace zc {

/// The timeline's training steps as a Chrome trace, as `zero-run --trace` writes one: rank 0, a lane per queue.
std::string plannedTrace(const planpb::Plan &plan, const Timeline &timeline);

} // namespace zc
