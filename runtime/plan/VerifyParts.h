//===- VerifyParts.h - pieces of verifyPlan, in the order they run ------------===//
#pragma once

#include "base/Status.h"
#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <string>

namespace zc::verify {

/// A violated constraint of Verify.h.
inline Error violation(int number, const char *label, std::string message, std::string where = {}) {
  Error error = makeError(Code::corrupt, number, "invalid plan: " + std::move(message), std::move(where));
  error.note = std::string("violates ") + label;
  return error;
}

/// A plan of format `version`: mismatch, with the command that compiles it again, where that is known.
Error otherFormat(uint32_t version, const std::string &name = {}, const std::string &command = {});

inline std::string str(uint64_t n) { return std::to_string(n); }

/// `index` names an element of a repeated field with `size` elements.
inline bool inRange(int64_t index, int size) { return index >= 0 && index < size; }

/// Indices of axes of the plan's mesh, ascending.
template <typename Indices> bool areAxes(const planpb::Plan &plan, const Indices &indices) {
  int64_t previous = -1;
  for (uint32_t axis : indices) {
    if (!inRange(axis, plan.mesh_size()) || axis <= previous)
      return false;
    previous = axis;
  }
  return true;
}

/// Strings, types, arenas, slices, inputs, metrics: what later parts index into.
Status verifyTables(const planpb::Plan &plan);
/// Parameters and buckets. After verifyTables.
Status verifyModelState(const planpb::Plan &plan);
/// Operands, attributes, collectives and waits of each step. After verifyTables.
Status verifySteps(const planpb::Plan &plan);
/// Delayed updates: who publishes, and what. After verifySteps.
Status verifyDelay(const planpb::Plan &plan);
/// Loss scaling: that what is scaled is scaled back. After verifySteps.
Status verifyLossScale(const planpb::Plan &plan);
/// An evaluation beside training: what it may touch, and all of it as a plan by itself. After verifyOrder.
Status verifyEvaluation(const planpb::Plan &plan);
/// Races and overlapping live ranges. After verifySteps.
Status verifyOrder(const planpb::Plan &plan);

} // namespace zc::verify
