#include "base/Mesh.h"

#include <gtest/gtest.h>
#include <set>

using namespace zc;

namespace {

/// Twelve ranks, six of them with other data.
Mesh threeAxes() {
  return Mesh({{std::string(kNodeAxis), 3}, {std::string(kLocalAxis), 2}, {std::string(kModelAxis), 2, false}});
}

constexpr AxisSet kNode = AxisSet::of(0), kLocal = AxisSet::of(1), kModel = AxisSet::of(2);

} // namespace

TEST(Mesh, OneRankHasNoAxes) {
  Mesh mesh;
  EXPECT_EQ(mesh.worldSize(), 1);
  EXPECT_EQ(mesh.dataDegree(), 1);
  EXPECT_EQ(mesh.size(AxisSet::all()), 1);
  EXPECT_EQ(mesh.rankOf(AxisSet::all(), 0, 0), 0);
}

TEST(Mesh, TheDataParallelDegreeIsNotTheWorldSize) {
  Mesh mesh = threeAxes();
  EXPECT_EQ(mesh.worldSize(), 12);
  EXPECT_EQ(mesh.dataDegree(), 6);
  EXPECT_EQ(mesh.ranksPerNode(), 4);
  EXPECT_EQ(mesh.nodes(), 3);
  EXPECT_EQ(mesh.dataAxes(), kNode | kLocal);
  EXPECT_EQ(mesh.sizeOf("model"), 2);
  EXPECT_EQ(mesh.sizeOf("expert"), 1);
}

TEST(Mesh, RanksCountThroughTheLastAxisFirst) {
  Mesh mesh = threeAxes();
  for (int rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(mesh.coordinate(0, rank), rank / 4);
    EXPECT_EQ(mesh.coordinate(1, rank), rank / 2 % 2);
    EXPECT_EQ(mesh.coordinate(2, rank), rank % 2);
    EXPECT_EQ(mesh.nodeOf(rank), rank / 4);
    EXPECT_EQ(mesh.indexOf(mesh.dataAxes(), rank), rank / 2);
    EXPECT_EQ(mesh.groupOf(mesh.dataAxes(), rank), rank % 2);
  }
}

/// For every set of axes: each rank is in one group, at one place, and members stand in the order of their ranks.
TEST(Mesh, GroupsPartTheRanks) {
  for (const Mesh &mesh : {threeAxes(), Mesh::ofNodes(6, 2), Mesh::ofNodes(4, 4), Mesh::ofNodes(3, 1)})
    for (uint8_t bits = 0; bits < 1u << mesh.axes().size(); ++bits) {
      AxisSet set = AxisSet::fromBits(bits);
      EXPECT_EQ(mesh.size(set) * mesh.groups(set), mesh.worldSize());
      EXPECT_EQ(mesh.size(set) * mesh.size(~set), mesh.worldSize());
      std::set<int> seen;
      for (int group = 0; group < mesh.groups(set); ++group)
        for (int index = 0, previous = -1; index < mesh.size(set); ++index) {
          int rank = mesh.rankOf(set, group, index);
          EXPECT_GT(rank, previous);
          previous = rank;
          seen.insert(rank);
          EXPECT_EQ(mesh.groupOf(set, rank), group);
          EXPECT_EQ(mesh.indexOf(set, rank), index);
          for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
            if (!set.has(axis)) {
              EXPECT_EQ(mesh.coordinate(axis, rank), mesh.coordinate(axis, mesh.rankOf(set, group, 0)));
            }
        }
      EXPECT_EQ(static_cast<int>(seen.size()), mesh.worldSize());
    }
}

TEST(Mesh, PlacesInAGroupAreLinearInTheCoordinates) {
  Mesh mesh = threeAxes();
  for (AxisSet set : {kNode, kLocal, kModel, kNode | kLocal, kNode | kModel, kLocal | kModel, AxisSet::all()})
    for (int rank = 0; rank < 12; ++rank) {
      int64_t place = 0;
      for (size_t axis = 0; axis < 3; ++axis)
        place += mesh.strideIn(set, axis) * mesh.coordinate(axis, rank);
      EXPECT_EQ(place, mesh.indexOf(set, rank));
    }
}

TEST(Mesh, MembersOnOneMachine) {
  Mesh mesh = threeAxes();
  EXPECT_EQ(mesh.sizeOnNode(AxisSet::all()), 4);
  EXPECT_EQ(mesh.sizeOnNode(kNode), 1);
  EXPECT_EQ(mesh.sizeOnNode(kNode | kLocal), 2);
  EXPECT_EQ(mesh.sizeOnNode(kLocal | kModel), 4);
  EXPECT_EQ(Mesh(std::vector<MeshAxis>{{"data", 8}}).sizeOnNode(AxisSet::all()), 8); // nothing says that they are apart
}

TEST(Mesh, GroupsHaveNames) {
  Mesh mesh = threeAxes();
  EXPECT_EQ(mesh.nameOf(AxisSet::all()), "all");
  EXPECT_EQ(mesh.nameOf(kLocal), "local");
  EXPECT_EQ(mesh.nameOf(kNode | kModel), "node+model");
  EXPECT_EQ(mesh.nameOf(AxisSet()), "none");
  EXPECT_EQ(Mesh::ofNodes(4, 2).nameOf(kNode | kLocal), "all");
}

TEST(Mesh, WhatIsNoMesh) {
  auto problem = [](std::vector<MeshAxis> axes) { return Mesh::problem(axes); };
  EXPECT_EQ(problem({}), "");
  EXPECT_EQ(problem({{"node", 256}, {"local", 256}}), "");
  EXPECT_EQ(problem({{"node", 257}, {"local", 256}}), "has more than 65536 ranks");
  EXPECT_EQ(problem({{"node", 1 << 30}, {"local", 1 << 30}}), "has more than 65536 ranks");
  EXPECT_EQ(problem({{"node", 0}}), "has axis \"node\" of size 0");
  EXPECT_EQ(problem({{"node", -1}}), "has axis \"node\" of size -1");
  EXPECT_EQ(problem({{"node", 2}, {"node", 2}}), "has axis \"node\" twice");
  EXPECT_NE(problem({{"", 2}}), "");
  EXPECT_NE(problem({{"a b", 2}}), "");
  EXPECT_NE(problem({{"a+b", 2}}), "");
  EXPECT_NE(problem({{"all", 2}}), "");
  EXPECT_NE(problem(std::vector<MeshAxis>(9, {"x", 1})), "");
}
