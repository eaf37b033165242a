#include "runtime/device/Link.h"

#include "base/Clock.h"
#include "base/Size.h"

#include <algorithm>
#include <cerrno>

namespace zc {

static constexpr std::array<std::string_view, kNumLinks> kNames = {"h2d", "d2h", "nvme_read", "nvme_write", "comm"};

std::string_view nameOf(Link link) { return kNames[static_cast<size_t>(link)]; }

static Error badRate(std::string_view part) {
  return makeError(Code::usage, 670, "\"" + std::string(part) + "\" is not LINK=SIZE/s", "ZERO_LINK",
                   "for example h2d=2GB/s,d2h=2GB/s,nvme_read=1GB/s,nvme_write=1GB/s,comm=4GB/s");
}

Result<LinkRates> parseLinkRates(std::string_view text) {
  LinkRates rates{};
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    while (!part.empty() && part.front() == ' ')
      part.remove_prefix(1);
    size_t equals = part.find('=');
    if (equals == std::string_view::npos || part.size() < 2 || part.substr(part.size() - 2) != "/s")
      return badRate(part);
    const auto *name = std::find(kNames.begin(), kNames.end(), part.substr(0, equals));
    auto size = parseSize(part.substr(equals + 1, part.size() - equals - 3));
    if (name == kNames.end() || !size || *size == 0)
      return badRate(part);
    rates[static_cast<size_t>(name - kNames.begin())] = static_cast<double>(*size);
  }
  return rates;
}

int64_t LinkSchedule::busyUntil(int64_t begun, uint64_t bytes, int64_t moved) {
  free = std::max(free, begun - late) + static_cast<int64_t>(static_cast<double>(bytes) / rate * 1e9);
  late = 0;
  return free = std::max(free, moved); // the bytes themselves may have taken longer
}

void Throttle::begin() {
  if (slow)
    begun = nanoseconds();
}

void Throttle::finish(uint64_t bytes) {
  if (!slow)
    return;
  const int64_t moved = nanoseconds(), free = schedule.busyUntil(begun, bytes, moved);
  if (free == moved)
    return;
  timespec until = {free / 1000000000, free % 1000000000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR)
    ;
  schedule.wokeAt(nanoseconds());
}

} // namespace zc
