//===- Collectives.h - what the ranks of a group do together -------------------------===//
//
// All that a plan's reader or maker has to know of a collective, in one table: what its operands may share, what is
// sent, which compiler and runtime count alike, and what verifyPlan checks of it (collective_c1 to c3). Communicators
// move the bytes (runtime/comm).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/StepView.h"
#include "runtime/plan/VerifyAliases.h"

#include <cstdint>
#include <string_view>

namespace zc {

struct PlannedCollective {
  /// Of a member.
  struct Bytes {
    uint64_t part;  ///< it sends these to each other one
    uint64_t whole; ///< what the formulas of ZeRO count
  };

  std::string_view kernel;
  verify::Sharing sharing; ///< of two operands of one type; of two types they share nothing
  Bytes (*bytes)(const planpb::TensorType &in, const planpb::TensorType &out, uint64_t members);
  Status (*verify)(const verify::StepView &step);
};

/// Null for kernels that a rank runs alone.
const PlannedCollective *findCollective(std::string_view kernel);

} // namespace zc
