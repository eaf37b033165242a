//===- Files.h - what a run reads and what it writes -----------------------------------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"
#include "tools/zero-run/Flags.h"

namespace zc::run {

/// The plan, not verified. Errors: those of readPlan; of another kind of file, what it is and where it belongs.
Result<planpb::Plan> openPlan(const std::string &path);

/// Refuses a training or an evaluation that would write over what it reads, before anything is touched. Errors: usage.
Status checkFiles(const Flags &flags, const planpb::Plan &plan);

} // namespace zc::run
