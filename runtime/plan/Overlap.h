//===- Overlap.h - what rank-dependent ranges share, on all ranks at once -------===//
//
// A rank is a point of the mesh, and an address is affine in its coordinates: base + sum of stride * coordinate.
// Whether two ranges meet on some rank is then a question of integers in a box, answered exactly without visiting the
// ranks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Mesh.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace zc {

/// Axes of the mesh, outermost first.
constexpr size_t kMeshAxes = Mesh::kMaxAxes;
using Coordinates = std::array<int64_t, kMeshAxes>;

/// base + sum of strides[k] * coordinate[k]. No value that it takes, nor a difference of two, may leave int64.
struct Affine {
  int64_t base = 0;
  Coordinates strides{};

  Affine operator-(const Affine &other) const;
  bool isZero() const;
};

/// low <= form <= high.
struct Bound {
  Affine form;
  int64_t low, high;
};

/// A mesh whose axis k has the coordinates 0 .. sizes[k] - 1; there is none where the size is 0.
class RankBox {
public:
  explicit RankBox(const Coordinates &sizes);

  /// The form with no stride along axes of one rank, where a stride means nothing (and may be any number).
  Affine normalized(Affine form) const;
  /// The largest value of a form without negative strides.
  int64_t greatest(const Affine &form) const;
  /// A rank on which all `bounds` hold, if there is one. Forms are normalized. Constant time where one axis, or several
  /// that the forms cross as one, matter; else all but the longest are walked. Adds what was visited to `work`.
  std::optional<Coordinates> find(const std::vector<Bound> &bounds, uint64_t &work) const;

private:
  Coordinates sizes;
};

} // namespace zc
