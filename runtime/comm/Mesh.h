//===- Mesh.h - the ranks of a job as nodes x local -----------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zc {

/// Along what a collective runs: its members are the ranks that differ only in that coordinate.
enum class Axis : uint8_t {
  all,   ///< every rank
  local, ///< the ranks of this rank's node
  node,  ///< one rank of each node: those with this rank's local index
};
/// "all", "local", "node".
inline constexpr std::string_view kAxisNames[] = {"all", "local", "node"};
inline std::string_view nameOf(Axis axis) { return kAxisNames[static_cast<size_t>(axis)]; }
inline std::optional<Axis> axisFromName(std::string_view name) {
  for (Axis axis : {Axis::all, Axis::local, Axis::node})
    if (name == nameOf(axis))
      return axis;
  return std::nullopt;
}

/// Rank r is number r % ranksPerNode of node r / ranksPerNode. `ranksPerNode` divides `worldSize`; both at least 1.
struct Mesh {
  int worldSize = 1;
  int ranksPerNode = 1;

  int nodes() const { return worldSize / ranksPerNode; }
  /// Members of a group along `axis`.
  int size(Axis axis) const { return axis == Axis::all ? worldSize : axis == Axis::local ? ranksPerNode : nodes(); }
  /// Place of `rank` among the members of its group, which stand in the order of their ranks.
  int indexOf(Axis axis, int rank) const {
    return axis == Axis::all ? rank : axis == Axis::local ? rank % ranksPerNode : rank / ranksPerNode;
  }
  /// Which of the groups along `axis` has `rank`, from 0.
  int groupOf(Axis axis, int rank) const {
    return axis == Axis::all ? 0 : axis == Axis::local ? rank / ranksPerNode : rank % ranksPerNode;
  }
  int groups(Axis axis) const { return worldSize / size(axis); }
  /// Rank of member `index` of group `group`.
  int rankOf(Axis axis, int group, int index) const {
    return axis == Axis::all     ? index
           : axis == Axis::local ? group * ranksPerNode + index
                                 : index * ranksPerNode + group;
  }
};

} // namespace zc
