#include "runtime/comm/FlightRecorder.h"

#include "base/Clock.h"
#include "base/Descriptor.h"
#include "base/JsonText.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

namespace zc {

static constexpr uint64_t kEnqueued = uint64_t(1) << 24; // beside a call

static uint64_t pack(const Call &call) {
  return uint64_t(call.kind) | uint64_t(call.axes.asBits()) << 8 | uint64_t(call.type) << 16 |
         uint64_t(uint32_t(call.root)) << 32;
}

static Call unpack(uint64_t word, uint64_t bytes) {
  // Within the enumerations even if the file was written by somebody else.
  Call call;
  call.kind = Collective(std::min<uint64_t>(word & 0xff, uint64_t(Collective::barrier)));
  call.axes = AxisSet::fromBits(uint8_t(word >> 8));
  call.type = DType(std::min<uint64_t>(word >> 16 & 0xff, uint64_t(DType::boolean)));
  call.root = int32_t(word >> 32);
  call.bytes = bytes;
  return call;
}

void FlightLog::begin(const Call &call, int64_t step, bool isEnqueued) {
  uint64_t number = begunCount.load(std::memory_order_relaxed) + 1;
  Words &entry = words[number % kEntries];
  entry.number.store(number, std::memory_order_relaxed);
  entry.begin.store(uint64_t(nanoseconds(CLOCK_REALTIME)), std::memory_order_relaxed);
  entry.end.store(0, std::memory_order_relaxed);
  entry.step.store(uint64_t(step), std::memory_order_relaxed);
  entry.bytes.store(call.bytes, std::memory_order_relaxed);
  entry.call.store(pack(call) | (isEnqueued ? kEnqueued : 0), std::memory_order_relaxed);
  missing.store(-1, std::memory_order_relaxed);
  since.store(nanoseconds(), std::memory_order_relaxed);
  begunCount.store(number, std::memory_order_release);
}

void FlightLog::end() {
  uint64_t number = begunCount.load(std::memory_order_relaxed);
  words[number % kEntries].end.store(uint64_t(nanoseconds(CLOCK_REALTIME)), std::memory_order_relaxed);
  missing.store(-1, std::memory_order_relaxed);
  since.store(0, std::memory_order_relaxed);
}

void FlightLog::setPlace(const std::string &text, int64_t ns) {
  placeText.set(text);
  placeTime.store(text.empty() ? 0 : ns, std::memory_order_relaxed);
}

FlightLog::Place FlightLog::place() const { return {placeText.get(), placeTime.load(std::memory_order_relaxed)}; }

std::vector<FlightEntry> FlightLog::entries() const {
  std::vector<FlightEntry> found;
  uint64_t last = begun();
  for (uint64_t number = last > kEntries ? last - kEntries + 1 : 1; number <= last; ++number) {
    const Words &entry = words[number % kEntries];
    auto get = [](const std::atomic<uint64_t> &word) { return word.load(std::memory_order_relaxed); };
    found.push_back({get(entry.number), int64_t(get(entry.step)), int64_t(get(entry.begin)), int64_t(get(entry.end)),
                     (get(entry.call) & kEnqueued) != 0, unpack(get(entry.call), get(entry.bytes))});
  }
  return found;
}

size_t FlightRecorder::sizeFor(const Mesh &mesh) { return 64 + size_t(mesh.worldSize()) * sizeof(FlightLog); }

FlightLog *FlightRecorder::logs() { return reinterpret_cast<FlightLog *>(static_cast<char *>(memory) + 64); }

// All zero is a valid state of every member: zero pages need no constructors.
Result<std::unique_ptr<FlightRecorder>> FlightRecorder::create(const Mesh &mesh) {
  size_t bytes = sizeFor(mesh);
  void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return makeError(Code::budget, 607, std::string("cannot map the flight recorder: ") + std::strerror(errno));
  return std::unique_ptr<FlightRecorder>(new FlightRecorder(memory, bytes, mesh));
}

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::open(const std::string &path, const Mesh &mesh, bool first) {
  size_t bytes = sizeFor(mesh);
  if (first)
    ::unlink(path.c_str());
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (first ? O_CREAT | O_EXCL : 0), 0600));
  void *memory = MAP_FAILED;
  // Blocks are allocated now: a full disk must not become a SIGBUS later.
  int failed = !file.isOpen() ? errno : first ? ::posix_fallocate(file.get(), 0, off_t(bytes)) : 0;
  if (failed == 0 && ::lseek(file.get(), 0, SEEK_END) < off_t(bytes))
    failed = EINVAL;
  if (failed == 0 && (memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)) == MAP_FAILED)
    failed = errno;
  if (failed != 0)
    return makeError(Code::io, 607, std::string("cannot map the flight recorder: ") + std::strerror(failed), path,
                     "the run's folder must be the same for all ranks");
  return std::unique_ptr<FlightRecorder>(new FlightRecorder(memory, bytes, mesh));
}

FlightRecorder::~FlightRecorder() { ::munmap(memory, bytes); }

bool FlightRecorder::claim() { return static_cast<Header *>(memory)->claimed.exchange(1) == 0; }

static std::string seconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", double(ns) / 1e9);
  return text;
}

std::string FlightRecorder::toJson() {
  // Other names come from our own enumerations: nothing in them needs escaping.
  int64_t now = nanoseconds(CLOCK_REALTIME);
  std::string json = "{\"world_size\": " + std::to_string(worldSize()) + ", \"ranks\": [";
  for (int rank = 0; rank < worldSize(); ++rank) {
    FlightLog &log = this->log(rank);
    json += std::string(rank ? "," : "") + "\n {\"rank\": " + std::to_string(rank) +
            ", \"collectives\": " + std::to_string(log.begun()) +
            ", \"inside\": " + (log.isInside() ? "true" : "false") +
            ", \"waits_for_rank\": " + (log.waitsFor() < 0 ? "null" : std::to_string(log.waitsFor())) +
            ", \"queues\": " + (log.queues().empty() ? "null" : jsonText(escapeName(log.queues()))) + ", \"last\": [";
    bool comma = false;
    for (const FlightEntry &entry : log.entries()) {
      json += std::string(comma ? "," : "") + "\n  {\"number\": " + std::to_string(entry.number) +
              ", \"collective\": \"" + std::string(nameOf(entry.call.kind)) + "\", \"axis\": \"" +
              mesh.nameOf(entry.call.axes) + "\", \"type\": \"" + std::string(nameOf(entry.call.type)) +
              "\", \"bytes\": " + std::to_string(entry.call.bytes) + ", \"step\": " + std::to_string(entry.step) +
              ", \"began_seconds_ago\": " + seconds(now - entry.begin) +
              (entry.isEnqueued ? ", \"enqueued_in_seconds\": " : ", \"took_seconds\": ") +
              (entry.end ? seconds(entry.end - entry.begin) : "null") + "}";
      comma = true;
    }
    json += "]}";
  }
  return json + "\n]}\n";
}

/// "all_gather number 7 of step 3"
static std::string nameOf(const FlightEntry &entry) {
  return std::string(nameOf(entry.call.kind)) + " number " + std::to_string(entry.number) + " of step " +
         std::to_string(entry.step);
}

int FlightRecorder::endOfWaiting(int waiting) {
  auto next = [&](int rank) { // what a file says that somebody else wrote may be no rank
    int other = log(rank).isInside() ? log(rank).waitsFor() : -1;
    return other < worldSize() ? other : -1;
  };
  const int first = next(waiting);
  int last = first;
  for (int turns = 0; last >= 0 && next(last) >= 0; ++turns) {
    last = next(last);
    if (last == waiting || turns == worldSize())
      return first; // they wait for each other
  }
  return last;
}

std::string FlightRecorder::explain(int waiting, const std::vector<int64_t> &silent, int64_t silence) {
  int64_t now = nanoseconds(CLOCK_REALTIME);
  auto where = [&](int rank) {
    std::vector<FlightEntry> entries = log(rank).entries();
    FlightLog::Place place = log(rank).place();
    if (!place.text.empty())
      return "it has been " + place.text + " for " + seconds(place.ns) + " s";
    if (entries.empty())
      return std::string("it has not begun any collective");
    const FlightEntry &last = entries.back();
    const std::string left = last.isEnqueued ? "it enqueued " : "it left ";
    return last.end ? left + nameOf(last) + " " + seconds(now - last.end) + " s ago" : "it is in " + nameOf(last);
  };
  FlightLog &mine = log(waiting);
  int late = -1;
  for (int rank = 0; late < 0 && rank < worldSize(); ++rank)
    if (rank != waiting && silent[size_t(rank)] > silence)
      late = rank;
  bool isSilent = late >= 0;
  if (late < 0)
    late = endOfWaiting(waiting);
  // Threads do not know whom they wait for: a rank with fewer collectives is late, first of all if it is out of them.
  // It may have been stopped while it was in one.
  for (bool inside : {false, true})
    for (int rank = 0; late < 0 && rank < worldSize(); ++rank)
      if (rank != waiting && log(rank).isInside() == inside && log(rank).begun() < mine.begun())
        late = rank;
  std::vector<FlightEntry> entries = mine.entries();
  std::string last = entries.empty() ? "" : nameOf(entries.back());
  std::string text = "rank " + std::to_string(waiting);
  bool isInside = mine.isInside(); // or waits for queues, which may be in one
  if (isInside)
    text += " waits in " + (last.empty() ? "a collective" : last);
  else
    text += " waits for its queues" +
            (last.empty()
                 ? ""
                 : (entries.back().isEnqueued ? " (last collective enqueued: " : " (last collective: ") + last + ")");
  if (late >= 0)
    text += (isInside ? " for rank " : " and for rank ") + std::to_string(late) + ": " + where(late);
  if (isSilent)
    text += ", and its process has given no sign for " + seconds(silent[size_t(late)]) + " s";
  for (int rank : {waiting, late})
    if (std::string queues = rank < 0 ? "" : log(rank).queues(); !queues.empty())
      text += "; of rank " + std::to_string(rank) + "'s queues " + queues;
  return text;
}

} // namespace zc
