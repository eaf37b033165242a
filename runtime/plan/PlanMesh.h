//===- PlanMesh.h - the mesh of a plan, and addresses on it ---------------------===//
#pragma once

#include "base/Mesh.h"
#include "runtime/plan/plan.pb.h"

#include <vector>

namespace zc {

/// As they stand in the plan; sizes beyond int are negative.
std::vector<MeshAxis> meshAxesOf(const planpb::Plan &plan);
/// One rank where the plan's mesh is none (plan_c2).
Mesh meshOf(const planpb::Plan &plan);
inline int worldSizeOf(const planpb::Plan &plan) { return meshOf(plan).worldSize(); }

/// Of a bucket. Indices that no mesh has are left out.
AxisSet axesOf(const planpb::Bucket &bucket);
/// Along which a collective runs.
AxisSet axesOf(const planpb::Step &step);
/// Parts that a bucket is cut into, or would be.
inline uint64_t cutsOf(const planpb::Bucket &bucket, const Mesh &mesh) {
  return static_cast<uint64_t>(mesh.size(axesOf(bucket)));
}

/// What gradients are kept in once they are summed over ranks.
inline planpb::Type gradientTypeOf(const planpb::Bucket &bucket) {
  return bucket.has_gradient_type() ? bucket.gradient_type() : bucket.type();
}

/// Bytes along an axis; an axis of one rank has no stride that counts.
inline uint64_t strideOf(const planpb::Operand &operand, const Mesh &mesh, size_t axis) {
  bool counts = axis < static_cast<size_t>(operand.strides_size()) && mesh.axes()[axis].size > 1;
  return counts ? operand.strides(static_cast<int>(axis)) : 0;
}
/// Bytes from the slice's start on `rank`, and on the rank where it is furthest; of verified operands.
uint64_t offsetOn(const planpb::Operand &operand, const Mesh &mesh, int rank);
uint64_t furthestOffset(const planpb::Operand &operand, const Mesh &mesh);

} // namespace zc
