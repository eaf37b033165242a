//===- TrafficClass.h - what the bytes of a collective count as ----------------------===//
#pragma once

#include "base/Names.h"

#include <cstdint>

namespace zc {

/// Which counter the buffer bytes of a collective go to, in a plan's report as in a run's. A step says it by name, in
/// its attribute kTrafficAttribute; one that says nothing counts as none.
enum class TrafficClass : uint8_t {
  none,
  gather,
  reduceScatter,
  allReduce,
  hop ///< the smaller of two hops of a collective: its bytes are sent, but the buffer was counted with the other one
};
constexpr std::array<const char *, 5> namesOf(TrafficClass) {
  return {"none", "gather", "reduce_scatter", "all_reduce", "hop"};
}
constexpr const char *kTrafficAttribute = "traffic";

} // namespace zc
