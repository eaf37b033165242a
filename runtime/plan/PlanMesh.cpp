#include "runtime/plan/PlanMesh.h"

#include <algorithm>

namespace zc {

std::vector<MeshAxis> meshAxesOf(const planpb::Plan &plan) {
  std::vector<MeshAxis> axes;
  for (const planpb::MeshAxis &axis : plan.mesh())
    axes.push_back({axis.name(), static_cast<int>(axis.size()), axis.kind() == planpb::DATA});
  return axes;
}

Mesh meshOf(const planpb::Plan &plan) {
  std::vector<MeshAxis> axes = meshAxesOf(plan);
  return Mesh::problem(axes).empty() ? Mesh(std::move(axes)) : Mesh();
}

template <typename Indices> static AxisSet setOf(const Indices &indices) {
  AxisSet set;
  for (uint32_t axis : indices)
    if (axis < Mesh::kMaxAxes)
      set = set | AxisSet::of(axis);
  return set;
}

AxisSet axesOf(const planpb::Bucket &bucket) { return setOf(bucket.axes()); }

AxisSet axesOf(const planpb::Step &step) { return step.axes().empty() ? AxisSet::all() : setOf(step.axes()); }

uint64_t offsetOn(const planpb::Operand &operand, const Mesh &mesh, int rank) {
  uint64_t offset = operand.offset();
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    offset += strideOf(operand, mesh, axis) * static_cast<uint64_t>(mesh.coordinate(axis, rank));
  return offset;
}

uint64_t furthestOffset(const planpb::Operand &operand, const Mesh &mesh) {
  return offsetOn(operand, mesh, mesh.worldSize() - 1);
}

} // namespace zc
