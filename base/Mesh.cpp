#include "base/Mesh.h"

#include <algorithm>

namespace zc {

Mesh::Mesh(std::vector<MeshAxis> axes) : list(std::move(axes)), weights(list.size()) {
  for (size_t axis = list.size(); axis-- > 0; world *= list[axis].size)
    weights[axis] = world;
}

Mesh Mesh::ofNodes(int worldSize, int ranksPerNode) {
  return Mesh({{std::string(kNodeAxis), worldSize / ranksPerNode}, {std::string(kLocalAxis), ranksPerNode}});
}

static bool isWord(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string Mesh::problem(const std::vector<MeshAxis> &axes) {
  if (axes.size() > kMaxAxes)
    return "has " + std::to_string(axes.size()) + " axes, at most " + std::to_string(kMaxAxes) + " are possible";
  int64_t world = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!isWord(axes[i].name))
      return "has an axis whose name is no word of letters, digits, '_' and '-'";
    if (axes[i].name == "all") // what a group of all ranks is called
      return "has an axis named \"all\"";
    for (size_t j = 0; j < i; ++j)
      if (axes[i].name == axes[j].name)
        return "has axis \"" + axes[i].name + "\" twice";
    if (axes[i].size < 1)
      return "has axis \"" + axes[i].name + "\" of size " + std::to_string(axes[i].size);
    world *= axes[i].size; // both below 2^31
    if (world > kMaxRanks)
      return "has more than " + std::to_string(kMaxRanks) + " ranks";
  }
  return {};
}

bool Mesh::operator==(const Mesh &other) const {
  return std::equal(list.begin(), list.end(), other.list.begin(), other.list.end(),
                    [](auto &a, auto &b) { return a.name == b.name && a.size == b.size && a.isData == b.isData; });
}

AxisSet Mesh::dataAxes() const {
  AxisSet set;
  for (size_t axis = 0; axis < list.size(); ++axis)
    if (list[axis].isData)
      set = set | AxisSet::of(axis);
  return set;
}

AxisSet Mesh::find(std::string_view name) const {
  for (size_t axis = 0; axis < list.size(); ++axis)
    if (list[axis].name == name)
      return AxisSet::of(axis);
  return {};
}

std::string Mesh::nameOf(AxisSet set) const {
  if (size(set) == world)
    return "all";
  std::string names;
  for (size_t axis = 0; axis < list.size(); ++axis)
    if (set.has(axis))
      names += (names.empty() ? "" : "+") + list[axis].name;
  return names.empty() ? "none" : names;
}

int Mesh::size(AxisSet set) const {
  int size = 1;
  for (size_t axis = 0; axis < list.size(); ++axis)
    if (set.has(axis))
      size *= list[axis].size;
  return size;
}

int Mesh::indexOf(AxisSet set, int rank) const {
  int index = 0;
  for (size_t axis = 0; axis < list.size(); ++axis)
    if (set.has(axis))
      index = index * list[axis].size + coordinate(axis, rank);
  return index;
}

int Mesh::rankOf(AxisSet set, int group, int index) const {
  int rank = 0;
  for (size_t axis = list.size(); axis-- > 0;) {
    int &rest = set.has(axis) ? index : group;
    rank += rest % list[axis].size * weights[axis];
    rest /= list[axis].size;
  }
  return rank;
}

int64_t Mesh::strideIn(AxisSet set, size_t axis) const {
  if (!set.has(axis))
    return 0;
  int64_t stride = 1;
  for (size_t inner = axis + 1; inner < list.size(); ++inner)
    if (set.has(inner))
      stride *= list[inner].size;
  return stride;
}

} // namespace zc
