//===- Call.h - what a rank called ------------------------------------------------===//
#pragma once

#include "base/Mesh.h"
#include "base/Tensor.h"

#include <string>

namespace zc {

enum class Collective : uint8_t { allGather, reduceScatter, allReduce, allToAll, broadcast, barrier };
/// "all_gather", ...
std::string_view nameOf(Collective kind);

/// Equal on all members of a group, or the call fails on all of them. Travels between processes as it is.
struct Call {
  Collective kind = Collective::barrier;
  AxisSet axes = AxisSet::all();
  DType type = DType::u8;
  int32_t root = 0;   ///< whose data broadcast moves
  uint64_t bytes = 0; ///< of one member's part, or of the whole buffer for all_reduce and broadcast
  bool operator==(const Call &o) const {
    return kind == o.kind && axes == o.axes && type == o.type && root == o.root && bytes == o.bytes;
  }
};
static_assert(sizeof(Call) == 16, "no padding");

/// "rank 1 calls all_gather of 64 bytes of u8", and along which axes if not all.
std::string describe(const Mesh &mesh, int rank, const Call &call);

} // namespace zc
