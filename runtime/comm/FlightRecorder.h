//===- FlightRecorder.h - the last collectives of every rank ------------------------===//
//
// Each rank notes when it begins and ends a collective, in memory that others may read at any time, even when the rank
// is stopped or stuck: the process's own for ranks that are threads, a mapped file for ranks that are processes. Noting
// takes no lock and no system call. Of a collective that goes into a device's stream the rank knows no more than that:
// how far the stream is, its timeline says.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/comm/Call.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace zc {

/// One collective of one rank.
struct FlightEntry {
  uint64_t number = 0;     ///< counts the rank's collectives from 1
  int64_t step = 0;        ///< optimizer step, 0: outside of steps
  int64_t begin = 0;       ///< ns of CLOCK_REALTIME
  int64_t end = 0;         ///< 0: not over
  bool isEnqueued = false; ///< in a device's stream: it ended for the host when that had it
  Call call;
};

/// Some text, cut off. Who reads while it is written may see half of two.
template <size_t kWords> class NotedText {
public:
  void set(const std::string &text) {
    char bytes[kWords * sizeof(uint64_t)] = {};
    std::memcpy(bytes, text.data(), std::min(text.size(), sizeof bytes - 1));
    for (size_t i = 0; i < kWords; ++i) {
      uint64_t word;
      std::memcpy(&word, bytes + i * sizeof word, sizeof word);
      words[i].store(word, std::memory_order_relaxed);
    }
  }
  std::string get() const {
    char bytes[kWords * sizeof(uint64_t) + 1] = {};
    for (size_t i = 0; i < kWords; ++i) {
      uint64_t word = words[i].load(std::memory_order_relaxed);
      std::memcpy(bytes + i * sizeof word, &word, sizeof word);
    }
    return bytes;
  }

private:
  std::atomic<uint64_t> words[kWords];
};

/// One rank's notes; written by that rank alone.
class FlightLog {
public:
  static constexpr size_t kEntries = 32;

  /// `isEnqueued`: it is over for the host when a device's stream has it.
  void begin(const Call &call, int64_t step, bool isEnqueued = false);
  void end();
  /// While in a collective: the first rank that has not come to it, or -1.
  void waitFor(int rank) { missing.store(rank, std::memory_order_relaxed); }

  /// A sign that the rank's process runs, given now and then by a thread that never waits.
  void beat() { alive.fetch_add(1, std::memory_order_relaxed); }
  uint64_t beats() const { return alive.load(std::memory_order_relaxed); }

  /// The rank gets on with something long that the others may wait for (saving, loading): they are not stuck.
  void getOn() { progress.fetch_add(1, std::memory_order_relaxed); }
  uint64_t timesGotOn() const { return progress.load(std::memory_order_relaxed); }

  /// The file that the rank has been waiting for (Blocking) for `ns`; an empty text: for none.
  void setPlace(const std::string &text, int64_t ns);
  struct Place {
    std::string text;
    int64_t ns = 0;
  };
  Place place() const;
  /// How far the rank's queues are, of which nothing gets on for long; empty: they do.
  void setQueues(const std::string &text) { queuesText.set(text); }
  std::string queues() const { return queuesText.get(); }

  uint64_t begun() const { return begunCount.load(std::memory_order_acquire); }
  bool isInside() const { return since.load(std::memory_order_relaxed) != 0; }
  /// CLOCK_MONOTONIC ns (of this rank's machine) when the collective it is in began; 0: it is in none.
  int64_t insideSince() const { return since.load(std::memory_order_relaxed); }
  int waitsFor() const { return missing.load(std::memory_order_relaxed); }
  /// The newest ones, oldest first. Entries that are being overwritten may be mixed.
  std::vector<FlightEntry> entries() const;

private:
  struct Words {
    std::atomic<uint64_t> number, begin, end, step, bytes, call;
  };
  std::atomic<uint64_t> begunCount;
  std::atomic<int64_t> since;
  std::atomic<uint64_t> alive, progress;
  std::atomic<int32_t> missing;
  std::atomic<int64_t> placeTime;
  NotedText<36> placeText;
  NotedText<96> queuesText;
  Words words[kEntries];
};

class FlightRecorder {
public:
  /// For ranks in this process.
  static Result<std::unique_ptr<FlightRecorder>> create(const Mesh &mesh);
  /// For ranks of several processes: maps `path`, which every process gives; `first` makes the file anew, before the
  /// others call. Errors: io.
  static Result<std::unique_ptr<FlightRecorder>> open(const std::string &path, const Mesh &mesh, bool first);
  FlightRecorder(const FlightRecorder &) = delete;
  FlightRecorder &operator=(const FlightRecorder &) = delete;
  ~FlightRecorder();

  FlightLog &log(int rank) { return logs()[rank]; }
  int worldSize() const { return mesh.worldSize(); }
  /// True for the first caller of the job, who is to tell what happened.
  bool claim();
  /// One JSON object: per rank how many collectives it began, what it waits for, how far its queues are, the last
  /// entries.
  std::string toJson();
  /// Why `waiting`, which is in a collective or waits for its queues, does not get on, in words: who has not come and
  /// where that rank was last. A rank whose process has given no sign for longer than `silence` ns is taken for
  /// stopped: `silent` says for how long it has not, by rank.
  std::string explain(int waiting, const std::vector<int64_t> &silent, int64_t silence);

private:
  FlightRecorder(void *memory, size_t bytes, const Mesh &mesh) : memory(memory), bytes(bytes), mesh(mesh) {}
  struct Header {
    std::atomic<uint32_t> claimed;
  };
  static size_t sizeFor(const Mesh &mesh);
  FlightLog *logs();
  /// Whom `waiting` waits for at last: the rank it waits for may be in the same collective, waiting for another's part.
  /// -1: it does not know.
  int endOfWaiting(int waiting);

  void *memory;
  size_t bytes;
  Mesh mesh;
};

} // namespace zc
