#include "runtime/plan/Overlap.h"

#include <algorithm>

namespace zc {

Affine Affine::operator-(const Affine &other) const {
  Affine difference{base - other.base, strides};
  for (size_t k = 0; k < kMeshAxes; ++k)
    difference.strides[k] -= other.strides[k];
  return difference;
}

bool Affine::isZero() const {
  return base == 0 && std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 0; });
}

RankBox::RankBox(const Coordinates &sizes) : sizes(sizes) {
  for (int64_t &size : this->sizes)
    size = std::max<int64_t>(size, 1);
}

Affine RankBox::normalized(Affine form) const {
  for (size_t k = 0; k < kMeshAxes; ++k)
    if (sizes[k] == 1)
      form.strides[k] = 0;
  return form;
}

int64_t RankBox::greatest(const Affine &form) const {
  int64_t value = form.base;
  for (size_t k = 0; k < kMeshAxes; ++k)
    value += form.strides[k] * (sizes[k] - 1);
  return value;
}

namespace {

int64_t floorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// Coordinates of one axis, both ends included.
struct Interval {
  int64_t first, last;
};

/// Where low <= base + stride * c <= high.
Interval meet(Interval range, int64_t base, int64_t stride, int64_t low, int64_t high) {
  if (stride == 0)
    return base >= low && base <= high ? range : Interval{0, -1};
  int64_t from = stride > 0 ? low - base : high - base, to = stride > 0 ? high - base : low - base;
  return {std::max(range.first, -floorDiv(-from, stride)), std::min(range.last, floorDiv(to, stride))};
}

/// Neighbouring axes of the mesh that all forms cross as one.
struct MergedAxis {
  size_t first, last;
  int64_t size;
};

/// Axes with a stride.

std::vector<MergedAxis> mergedAxes(const Coordinates &sizes, const std::vector<Bound> &bounds) {
  std::vector<MergedAxis> axes;
  for (size_t k = 0; k < kMeshAxes; ++k) {
    bool matters = std::any_of(bounds.begin(), bounds.end(), [&](const Bound &b) { return b.form.strides[k] != 0; });
    if (!matters)
      continue;
    bool asOne = !axes.empty() && axes.back().last + 1 == k && std::all_of(bounds.begin(), bounds.end(), [&](auto &b) {
      return b.form.strides[k - 1] == b.form.strides[k] * sizes[k];
    });
    if (asOne) {
      axes.back().last = k;
      axes.back().size *= sizes[k];
    } else {
      axes.push_back({k, k, sizes[k]});
    }
  }
  // The longest comes last: it is solved, the others are walked.
  auto longest = std::max_element(axes.begin(), axes.end(), [](auto &a, auto &b) { return a.size < b.size; });
  if (longest != axes.end())
    std::swap(*longest, axes.back());
  return axes;
}

} // namespace

std::optional<Coordinates> RankBox::find(const std::vector<Bound> &bounds, uint64_t &work) const {
  std::vector<MergedAxis> axes = mergedAxes(sizes, bounds);
  std::vector<int64_t> at(axes.size(), 0);
  auto strideOf = [&](const Bound &bound, size_t axis) { return bound.form.strides[axes[axis].last]; };
  for (;;) {
    ++work;
    Interval range{0, axes.empty() ? 0 : axes.back().size - 1};
    for (const Bound &bound : bounds) {
      int64_t base = bound.form.base;
      for (size_t axis = 0; axis + 1 < axes.size(); ++axis)
        base += strideOf(bound, axis) * at[axis];
      range = meet(range, base, axes.empty() ? 0 : strideOf(bound, axes.size() - 1), bound.low, bound.high);
    }
    if (range.first <= range.last) {
      Coordinates found{};
      if (!axes.empty())
        at.back() = range.first;
      for (size_t axis = 0; axis < axes.size(); ++axis)
        for (size_t k = axes[axis].last + 1; k-- > axes[axis].first; at[axis] /= sizes[k])
          found[k] = at[axis] % sizes[k];
      return found;
    }
    size_t axis = axes.empty() ? 0 : axes.size() - 1;
    while (axis-- > 0 && ++at[axis] == axes[axis].size)
      at[axis] = 0;
    if (axis >= axes.size()) // through all of them
      return std::nullopt;
  }
}

} // namespace zc
