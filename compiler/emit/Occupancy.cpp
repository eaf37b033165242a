//===- Occupancy.cpp - adds up slices between their first and last use --------------------===//

#include "compiler/emit/Occupancy.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <numeric>

using namespace zc;

uint64_t zc::sumOf(const ClassBytes &bytes) { return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}); }

int Occupancy::peak() const {
  if (steps.empty())
    return -1;
  auto less = [](const ClassBytes &a, const ClassBytes &b) { return sumOf(a) < sumOf(b); };
  return static_cast<int>(std::max_element(steps.begin(), steps.end(), less) - steps.begin());
}

static std::vector<Extent> extentsOf(const planpb::Plan &plan, const planpb::Section &section) {
  std::vector<Extent> extents(static_cast<size_t>(plan.slices_size()));
  for (int i = 0; i < section.steps_size(); ++i) {
    if (section.steps(i).has_kept())
      extents[section.steps(i).kept().place().slice()] = {0, section.steps_size() - 1};
    forOperands(section.steps(i), [&](const planpb::Operand &operand) {
      Extent &extent = extents[operand.slice()];
      extent.first = extent.first < 0 ? i : extent.first;
      extent.last = i;
    });
  }
  return extents;
}

Occupancy zc::occupancyOf(const planpb::Plan &plan, const planpb::Section &section, uint32_t arena) {
  Occupancy result;
  result.extents = extentsOf(plan, section);
  auto count = static_cast<size_t>(section.steps_size());
  std::vector<std::vector<const planpb::Slice *>> enter(count), leave(count + 1);
  ClassBytes now{};
  for (size_t s = 0; s < result.extents.size(); ++s) {
    const planpb::Slice &slice = plan.slices(static_cast<int>(s));
    if (slice.arena() != arena)
      continue;
    if (slice.persistent()) {
      now[slice.klass()] += slice.bytes();
    } else if (result.extents[s].first >= 0) {
      enter[static_cast<size_t>(result.extents[s].first)].push_back(&slice);
      leave[static_cast<size_t>(result.extents[s].last) + 1].push_back(&slice);
    }
  }
  for (size_t position = 0; position < count; ++position) {
    for (const planpb::Slice *slice : leave[position])
      now[slice->klass()] -= slice->bytes();
    for (const planpb::Slice *slice : enter[position])
      now[slice->klass()] += slice->bytes();
    result.steps.push_back(now);
  }
  return result;
}
