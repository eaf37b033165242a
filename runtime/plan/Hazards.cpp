#include "runtime/plan/Hazards.h"

#include <algorithm>
#include <utility>

namespace zc {

HazardTracker::HazardTracker(size_t numArenas, Covers covers) : arenas(numArenas), covers(std::move(covers)) {
  lastOfQueue.fill(kNoStep);
}

HazardTracker::StepId HazardTracker::begin(unsigned queue) {
  current = static_cast<StepId>(clocks.size());
  Clock clock{};
  if (lastOfQueue[queue] != kNoStep)
    clock = clocks[lastOfQueue[queue]];
  for (unsigned q = 0; q < kNumQueues; ++q)
    clock[q] = std::max(clock[q], drained[q]);
  clocks.push_back(clock);
  positions.push_back({static_cast<uint8_t>(queue), ++counts[queue]});
  lastOfQueue[queue] = current;
  accesses.clear();
  needed.fill({});
  findings.missing.clear();
  findings.stale.clear();
  return current;
}

void HazardTracker::wait(StepId earlier) { join(earlier); }

void HazardTracker::drain() { drained = counts; }

void HazardTracker::touch(const Access &access) {
  if (access.begin < access.end)
    accesses.push_back(access);
}

void HazardTracker::join(StepId earlier) {
  for (unsigned q = 0; q < kNumQueues; ++q)
    clocks[current][q] = std::max(clocks[current][q], clocks[earlier][q]);
}

bool HazardTracker::isOrdered(StepId earlier) const {
  const Position &position = positions[earlier];
  return position.queue == positions[current].queue || clocks[current][position.queue] >= position.count;
}

void HazardTracker::require(StepId earlier, Kind kind, const Access &access, uint64_t at) {
  if (earlier == kNoStep || isOrdered(earlier))
    return;
  Dependence &latest = needed[positions[earlier].queue];
  if (latest.step == kNoStep || latest.step < earlier)
    latest = {earlier, kind, access.slice, at};
}

HazardTracker::IntervalMap::iterator HazardTracker::splitAt(IntervalMap &map, uint64_t at) {
  auto next = map.lower_bound(at);
  if (next == map.begin() || (next != map.end() && next->first == at))
    return next;
  auto previous = std::prev(next);
  if (previous->second.end <= at)
    return next;
  Interval tail = previous->second;
  previous->second.end = at;
  return map.emplace_hint(next, at, tail);
}

void HazardTracker::markStale(const Access &access, uint64_t at, StepId writer, uint32_t writerSlice, bool &stale) {
  if (access.transient && !stale)
    findings.stale.push_back({access.slice, at, writer, writerSlice});
  stale = true;
}

void HazardTracker::readInterval(Interval &interval, const Access &access, uint64_t at, bool &stale) {
  require(interval.writer, Kind::readAfterWrite, access, at);
  bool isWritten = interval.pattern == 0 || interval.pattern == access.pattern ||
                   (covers && access.pattern != 0 && covers(interval.pattern, access.pattern));
  if (interval.writer == kNoStep || interval.writerSlice != access.slice || !isWritten)
    markStale(access, at, interval.writer, interval.writerSlice, stale);
  interval.readers[positions[current].queue] = current;
}

void HazardTracker::writeSome(Interval &interval, const Access &access) const {
  bool isWhole = interval.writer != kNoStep && interval.writerSlice == access.slice && interval.pattern == 0;
  interval.writer = current;
  interval.writerSlice = access.slice;
  interval.pattern = isWhole ? 0 : access.pattern;
  interval.readers.fill(kNoStep);
}

/// The read half or the write half of an access. Reading leaves intervals as they are cut; writing makes one of them,
/// unless which of the bytes are written depends on the rank.
void HazardTracker::apply(const Access &access, bool write) {
  const bool overwrites = write && access.pattern == 0;
  IntervalMap &map = arenas[access.arena];
  auto it = splitAt(map, access.begin);
  splitAt(map, access.end);
  Interval mine{access.end, kNoStep, kNoSlice, 0, {}};
  mine.readers.fill(kNoStep);
  bool stale = false;
  uint64_t at = access.begin;
  while (at < access.end) {
    ++visited;
    if (it == map.end() || it->first > at) { // never touched up to `next`
      uint64_t next = it == map.end() ? access.end : std::min(it->first, access.end);
      if (!overwrites) {
        Interval untouched = mine;
        untouched.end = next;
        if (write)
          writeSome(untouched, access);
        else
          readInterval(untouched, access, at, stale);
        map.emplace_hint(it, at, untouched);
      }
      at = next;
      continue;
    }
    Interval &interval = it->second;
    at = interval.end;
    if (!write) {
      readInterval(interval, access, it->first, stale);
      ++it;
      continue;
    }
    require(interval.writer, Kind::writeAfterWrite, access, it->first);
    for (StepId reader : interval.readers)
      require(reader, Kind::writeAfterRead, access, it->first);
    if (overwrites) {
      it = map.erase(it);
      continue;
    }
    writeSome(interval, access);
    ++it;
  }
  if (overwrites) {
    mine.writer = current;
    mine.writerSlice = access.slice;
    map.emplace_hint(it, access.begin, mine);
  }
}

const HazardTracker::Findings &HazardTracker::finish() {
  for (const Access &access : accesses)
    if (access.reads)
      apply(access, false);
  for (const Access &access : accesses)
    if (access.writes)
      apply(access, true);
  // Latest first: what it knows may cover the others.
  std::sort(needed.begin(), needed.end(), [](const Dependence &a, const Dependence &b) {
    return (a.step != kNoStep && b.step != kNoStep) ? a.step > b.step : a.step != kNoStep && b.step == kNoStep;
  });
  for (const Dependence &dependence : needed) {
    if (dependence.step == kNoStep || isOrdered(dependence.step))
      continue;
    findings.missing.push_back(dependence);
    join(dependence.step);
  }
  clocks[current][positions[current].queue] = positions[current].count;
  return findings;
}

std::vector<uint32_t> walkOrder(uint32_t accumulation) {
  if (accumulation <= 1)
    return {0, 1, 0, 1};
  return {0, 0, 1, 0, 0, 1};
}

int64_t waitedExecution(uint32_t here, int64_t index, uint32_t section, uint32_t distance, uint32_t accumulation) {
  int64_t back = distance, micros = accumulation;
  int64_t execution = 0;
  if (here == section)
    execution = index - back;
  else if (section == 0) // from update to micro: distance 0 is the last micro-step of this step
    execution = (index + 1) * micros - 1 - back;
  else // from micro to update: this step's update has not run yet
    execution = back == 0 ? -1 : index / micros - back;
  return std::max<int64_t>(execution, -1);
}

} // namespace zc
