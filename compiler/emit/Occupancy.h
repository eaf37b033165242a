//===- Occupancy.h - which bytes of a tier are in use at each step ------------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"

#include <array>
#include <cstdint>
#include <vector>

namespace zc {

/// Bytes in use by class, indexed by planpb::Class.
using ClassBytes = std::array<uint64_t, 5>;
uint64_t sumOf(const ClassBytes &bytes);

/// Steps of a section from the first to the last that touches a slice; first is -1 where none does.
struct Extent {
  int first = -1, last = -1;
};

/// One arena over the steps of a section, in plan order.
struct Occupancy {
  std::vector<Extent> extents;   ///< by slice of the plan
  std::vector<ClassBytes> steps; ///< what is in use while each step runs: persistent slices, and transient ones between
                                 ///< their first and last use
  /// The first step at which most is in use; -1 in a section without steps.
  int peak() const;
};
Occupancy occupancyOf(const planpb::Plan &plan, const planpb::Section &section, uint32_t arena);

} // namespace zc
