//===- Mesh.h - the ranks of a job along named axes ------------------------------===//
//
// A rank is a point of a box: it has a coordinate on each axis, and ranks count through the last axis first. Along data
// axes ranks compute with other samples and the same parameters; along the others they share the work on one sample.
// So the world's size is the product of all axes, the data-parallel degree that of the data axes.
//
//     Mesh mesh({{"node", 2}, {"local", 4}, {"model", 2, false}});   // 16 ranks, 8 of them with other data
//     mesh.size(mesh.dataAxes()) == 8
//     mesh.rankOf(mesh.find("local"), group, index)
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zc {

/// Ranks with one coordinate there are on one machine; a mesh without it is one machine.
inline constexpr std::string_view kNodeAxis = "node";
/// The data-parallel ranks of a node.
inline constexpr std::string_view kLocalAxis = "local";
/// Ranks that share the work on a sample.
inline constexpr std::string_view kModelAxis = "model";

/// Some of a mesh's axes, by their places in it. The members of a group along them are the ranks that have all other
/// coordinates in common.
class AxisSet {
public:
  constexpr AxisSet() = default; ///< none
  static constexpr AxisSet of(size_t axis) { return AxisSet(uint8_t(1u << axis)); }
  /// Every axis that a mesh has.
  static constexpr AxisSet all() { return AxisSet(0xff); }

  constexpr bool has(size_t axis) const { return bits >> axis & 1; }
  constexpr bool empty() const { return bits == 0; }
  constexpr AxisSet operator|(AxisSet o) const { return AxisSet(uint8_t(bits | o.bits)); }
  constexpr AxisSet operator&(AxisSet o) const { return AxisSet(uint8_t(bits & o.bits)); }
  constexpr AxisSet operator~() const { return AxisSet(uint8_t(~bits)); }
  constexpr bool operator==(AxisSet o) const { return bits == o.bits; }
  constexpr bool operator!=(AxisSet o) const { return bits != o.bits; }
  constexpr uint8_t asBits() const { return bits; }
  static constexpr AxisSet fromBits(uint8_t bits) { return AxisSet(bits); }

private:
  explicit constexpr AxisSet(uint8_t bits) : bits(bits) {}
  uint8_t bits = 0;
};

struct MeshAxis {
  std::string name;
  int size = 1;
  bool isData = true; ///< ranks that differ here have other samples
};

class Mesh {
public:
  static constexpr size_t kMaxAxes = 8;
  static constexpr int kMaxRanks = 65536;

  /// One rank.
  Mesh() = default;
  /// Outermost first. `problem(axes)` is none.
  explicit Mesh(std::vector<MeshAxis> axes);
  /// `ranksPerNode` data-parallel ranks on each node: axes node and local. It divides `worldSize`.
  static Mesh ofNodes(int worldSize, int ranksPerNode);
  /// What is wrong with axes: more than kMaxAxes or kMaxRanks, a size below 1, a name that is empty, no word of
  /// letters, digits, '_' and '-', or there twice. Empty if nothing is.
  static std::string problem(const std::vector<MeshAxis> &axes);

  const std::vector<MeshAxis> &axes() const { return list; }
  bool operator==(const Mesh &other) const;
  bool operator!=(const Mesh &other) const { return !(*this == other); }
  int worldSize() const { return world; }
  /// Ranks that have other samples.
  int dataDegree() const { return size(dataAxes()); }
  int ranksPerNode() const { return size(~nodeAxes()); }
  int nodes() const { return size(nodeAxes()); }

  /// All of this mesh's axes.
  AxisSet all() const { return AxisSet::fromBits(uint8_t((1u << list.size()) - 1)); }
  AxisSet dataAxes() const;
  AxisSet modelAxes() const { return all() & ~dataAxes(); }
  /// The axis between machines, if there is one.
  AxisSet nodeAxes() const { return find(kNodeAxis); }
  /// The axis of that name; none if there is no such axis.
  AxisSet find(std::string_view name) const;
  /// Size of the axis of that name; 1 if there is none.
  int sizeOf(std::string_view name) const { return size(find(name)); }
  /// "all" for a group of all ranks, else the names with '+' between them.
  std::string nameOf(AxisSet set) const;

  /// Members of a group along `set`.
  int size(AxisSet set) const;
  /// Members of a group that are on one machine.
  int sizeOnNode(AxisSet set) const { return size(set & ~nodeAxes()); }
  int groups(AxisSet set) const { return world / size(set); }
  int coordinate(size_t axis, int rank) const { return rank / weights[axis] % list[axis].size; }
  /// Place of `rank` among the members of its group, which stand in the order of their ranks.
  int indexOf(AxisSet set, int rank) const;
  /// Which of the groups along `set` has `rank`, from 0.
  int groupOf(AxisSet set, int rank) const { return indexOf(~set, rank); }
  /// Rank of member `index` of group `group`.
  int rankOf(AxisSet set, int group, int index) const;
  int nodeOf(int rank) const { return indexOf(nodeAxes(), rank); }
  /// By how much the place in a group along `set` grows with the coordinate on `axis`; 0 where it is none of them.
  int64_t strideIn(AxisSet set, size_t axis) const;

private:
  std::vector<MeshAxis> list;
  std::vector<int> weights; ///< by axis: ranks between neighbours
  int world = 1;
};

} // namespace zc
