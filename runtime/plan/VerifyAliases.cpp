#include "runtime/plan/VerifyAliases.h"

#include "runtime/plan/Walk.h"

#include <algorithm>
#include <tuple>

namespace zc::verify {

/// Pairs of operands and ranks looked at in one plan; about a second.
static constexpr uint64_t kWorkLimit = uint64_t(1) << 25;

AliasFinder::AliasFinder(const planpb::Plan &plan)
    : plan(plan), mesh{static_cast<int>(plan.world_size()), static_cast<int>(plan.ranks_per_node())},
      ranks({mesh.nodes(), mesh.ranksPerNode}) {}

AliasFinder::Range AliasFinder::rangeOf(const planpb::Step &step, int position) const {
  const planpb::Operand &operand = step.operands(position);
  const planpb::Slice &slice = plan.slices(static_cast<int>(operand.slice()));
  // In one rank the stride may be any number, so nothing is multiplied before that is known to be safe.
  auto stride = static_cast<int64_t>(mesh.worldSize > 1 ? operand.rank_stride() : 0);
  Affine begin{static_cast<int64_t>(slice.offset() + operand.offset()), {stride * mesh.ranksPerNode, stride}};
  Range range{position,
              static_cast<uint32_t>(position) >= step.inputs(),
              slice.arena(),
              ranks.normalized(begin),
              static_cast<int64_t>(bytesOf(plan.types(static_cast<int>(operand.type())))),
              0};
  range.hullEnd = ranks.greatest(range.begin) + range.bytes;
  return range;
}

Affine AliasFinder::ownPlace(Axis axis, int64_t partBytes) const {
  Coordinates strides{};
  if (axis != Axis::local)
    strides[0] = partBytes * (axis == Axis::all ? mesh.ranksPerNode : 1);
  if (axis != Axis::node)
    strides[1] = partBytes;
  return ranks.normalized({0, strides});
}

std::optional<AliasFinder::Alias> AliasFinder::compare(const Range &a, const Range &b, Sharing sharing, Axis axis) {
  const Range &written = a.isWritten && (!b.isWritten || a.position > b.position) ? a : b;
  const Range &other = &written == &a ? b : a;
  Affine distance = written.begin - other.begin;
  std::vector<Bound> bounds{{distance, 1 - written.bytes, other.bytes - 1}}; // where they meet
  auto findRank = [&]() -> std::optional<Alias> {
    std::optional<Coordinates> at = ranks.find(bounds, work);
    if (!at)
      return std::nullopt;
    return Alias{written.position, other.position, (*at)[0] * mesh.ranksPerNode + (*at)[1]};
  };
  bool mayShare =
      !other.isWritten && (sharing == Sharing::ownPart || (sharing == Sharing::whole && written.bytes == other.bytes));
  if (!mayShare)
    return findRank();
  Affine wanted;
  if (sharing == Sharing::ownPart)
    wanted = written.bytes < other.bytes ? ownPlace(axis, written.bytes) : Affine() - ownPlace(axis, other.bytes);
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

AliasFinder::Finding AliasFinder::find(const planpb::Step &step, Sharing sharing, Axis axis) {
  std::vector<Range> ranges;
  for (int i = 0; i < step.operands_size(); ++i)
    if (Range range = rangeOf(step, i); range.bytes > 0)
      ranges.push_back(range);
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::tie(a.arena, a.begin.base, a.position) < std::tie(b.arena, b.begin.base, b.position);
  });
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
          if (std::optional<Alias> alias = compare(*other, range, sharing, axis))
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
