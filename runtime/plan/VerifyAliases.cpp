#include "runtime/plan/VerifyAliases.h"

#include "runtime/plan/Walk.h"

#include <algorithm>
#include <tuple>

namespace zc::verify {

/// Pairs of operands and ranks looked at in one plan; about a second.
static constexpr uint64_t kWorkLimit = uint64_t(1) << 25;

static Coordinates sizesOf(const Mesh &mesh) {
  Coordinates sizes{};
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    sizes[axis] = mesh.axes()[axis].size;
  return sizes;
}

AliasFinder::AliasFinder(const planpb::Plan &plan) : plan(plan), mesh(meshOf(plan)), ranks(sizesOf(mesh)) {}

AliasFinder::Range AliasFinder::rangeOf(const planpb::Step &step, int position) const {
  const planpb::Operand &operand = step.operands(position);
  const planpb::Slice &slice = plan.slices(static_cast<int>(operand.slice()));
  Affine begin{static_cast<int64_t>(slice.offset() + operand.offset()), {}};
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    begin.strides[axis] = static_cast<int64_t>(strideOf(operand, mesh, axis));
  Range range{position,
              static_cast<uint32_t>(position) >= step.inputs(),
              slice.arena(),
              begin,
              static_cast<int64_t>(bytesOf(plan.types(static_cast<int>(operand.type())))),
              0};
  range.hullEnd = ranks.greatest(range.begin) + range.bytes;
  return range;
}

Affine AliasFinder::ownPlace(AxisSet axes, int64_t partBytes) const {
  Coordinates strides{};
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    strides[axis] = partBytes * mesh.strideIn(axes, axis);
  return ranks.normalized({0, strides});
}

std::optional<AliasFinder::Alias> AliasFinder::compare(const Range &a, const Range &b, Sharing sharing, AxisSet axes) {
  const Range &written = a.isWritten && (!b.isWritten || a.position > b.position) ? a : b;
  const Range &other = &written == &a ? b : a;
  Affine distance = written.begin - other.begin;
  std::vector<Bound> bounds{{distance, 1 - written.bytes, other.bytes - 1}}; // where they meet
  auto findRank = [&]() -> std::optional<Alias> {
    std::optional<Coordinates> at = ranks.find(bounds, work);
    if (!at)
      return std::nullopt;
    int64_t rank = 0;
    for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
      rank = rank * mesh.axes()[axis].size + (*at)[axis];
    return Alias{written.position, other.position, rank};
  };
  bool mayShare =
      !other.isWritten && (sharing == Sharing::ownPart || (sharing == Sharing::whole && written.bytes == other.bytes));
  if (!mayShare)
    return findRank();
  Affine wanted;
  if (sharing == Sharing::ownPart)
    wanted = written.bytes < other.bytes ? ownPlace(axes, written.bytes) : Affine() - ownPlace(axes, other.bytes);
  Affine off = distance - wanted;
  if (off.isZero())
    return std::nullopt;
  // Somewhere they meet, but not as they may: a little before or a little behind.
  constexpr int64_t kFar = int64_t(1) << 62;
  bounds.push_back({off, -kFar, -1});
  if (std::optional<Alias> before = findRank())
    return before;
  bounds.back() = {off, 1, kFar};
  return findRank();
}

std::vector<AliasFinder::Range> AliasFinder::rangesOf(const planpb::Step &step) const {
  std::vector<Range> ranges;
  for (int i = 0; i < step.operands_size(); ++i)
    if (Range range = rangeOf(step, i); range.bytes > 0)
      ranges.push_back(range);
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::tie(a.arena, a.begin.base, a.position) < std::tie(b.arena, b.begin.base, b.position);
  });
  return ranges;
}

std::vector<std::pair<size_t, size_t>> AliasFinder::inPlace(const planpb::Step &step) const {
  std::vector<std::pair<size_t, size_t>> found;
  std::vector<Range> ranges = rangesOf(step);
  for (size_t first = 0, end = 0; first < ranges.size(); first = end) {
    auto begins = [&](const Range &range) {
      return range.arena == ranges[first].arena && (range.begin - ranges[first].begin).isZero();
    };
    for (end = first + 1; end < ranges.size() && begins(ranges[end]);)
      ++end;
    for (size_t i = first; i < end; ++i)
      for (size_t j = first; j < end; ++j)
        if (!ranges[i].isWritten && ranges[j].isWritten)
          found.emplace_back(ranges[i].position, ranges[j].position);
  }
  return found;
}

AliasFinder::Finding AliasFinder::find(const planpb::Step &step, Sharing sharing) {
  std::vector<Range> ranges = rangesOf(step);
  std::vector<const Range *> open[2]; // that may reach the next one: read, written
  for (const Range &range : ranges)
    for (bool isWritten : {true, false}) {
      std::vector<const Range *> &others = open[isWritten];
      others.erase(std::remove_if(others.begin(), others.end(),
                                  [&](const Range *other) {
                                    return other->arena != range.arena || other->hullEnd <= range.begin.base;
                                  }),
                   others.end());
      if (isWritten || range.isWritten)
        for (const Range *other : others) {
          if (++work > kWorkLimit)
            return {std::nullopt, true};
          if (std::optional<Alias> alias = compare(*other, range, sharing, axesOf(step)))
            return {alias, false};
        }
      else
        work += others.size() / 64; // only thrown out
      if (isWritten == range.isWritten)
        others.push_back(&range);
    }
  return {};
}

} // namespace zc::verify
