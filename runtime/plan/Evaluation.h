//===- Evaluation.h - a plan's evaluation as a plan of its own ------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"

namespace zc {

/// The forward-only plan that `eval` of `plan` is, which must have one: the same tables, arenas and places of
/// parameters, but nothing trains. It is verified, prepared and executed as such; over the memory of `plan` while that
/// is at rest.
planpb::Plan evaluationOf(const planpb::Plan &plan);

} // namespace zc
