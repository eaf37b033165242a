//===- Watchdog.h - nobody waits for ever -------------------------------------------------===//
#pragma once

#include "base/Awaited.h"
#include "base/Blocking.h"
#include "base/SeenCount.h"
#include "runtime/comm/FlightRecorder.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace zc::train {

/// A thread that looks at this process's ranks: when one has been in one call to the system (Blocking: a read, a write,
/// the disk of the NVMe tier), in one kernel (Working), inside a collective, or waiting for its queues (Awaited), none
/// of which gets on, for longer than it may, the flight recorder is written to a file and `end` is called, once. While
/// some rank gets on, going through such calls one after the other (it saves or loads) or with its queues' steps,
/// waiting for it is no reason. Time in which the watchdog could not look either does not count: the process was
/// stopped, or its machine suspended.
class Watchdog {
public:
  using End = std::function<void(const Error &)>;
  Watchdog() = default;
  ~Watchdog() { stop(); }

  /// `seconds` > 0; ranks [first, first + count) are this process's. Before `observe` it sees calls to the system only.
  void start(int first, int count, double seconds, End end);
  /// Before `start`: once `stop` is set, which is how a launcher ends the other ranks when one was killed, `say` is
  /// told if the system has killed for want of memory meanwhile.
  void explain(const std::atomic<int> *stop, std::function<void(const std::string &)> say);
  /// The collectives as well. The recorder must outlive the watchdog. The first watchdog of a job that notices says
  /// why, and a launcher ends the others' processes; those that are still there after a second or two say it too.
  void observe(FlightRecorder &recorder, std::string file);
  void stop();

private:
  void watch();
  /// Tells the recorder how this process's ranks are: that they live, get on, wait for a file, how far queues are of
  /// which nothing has got on for `forLong` ns.
  void note(const std::vector<BlockedThread> &blocked, int64_t forLong);
  /// Why nothing moves, if nothing does; what is awaited may take as many ns longer.
  std::string reason(const std::vector<BlockedThread> &blocked, int64_t later);
  void fire(const std::string &why);

  void explainStop();

  int first = 0, count = 0;
  double seconds = 0;
  int64_t lookedAt = 0;                    ///< the last time
  int64_t awakeSince = 0;                  ///< has looked again and again since then
  const std::atomic<int> *asked = nullptr; ///< to stop
  std::function<void(const std::string &)> say;
  uint64_t oomKillsBefore = 0;
  End end;
  std::mutex mutex; // of `stopping`, `recorder`, `file`
  std::condition_variable wake;
  bool stopping = false;
  FlightRecorder *recorder = nullptr;
  std::string file;
  std::vector<AwaitedWork> awaited; ///< when last looked at
  std::vector<SeenCount> passed;    ///< by this process's rank
  /// A rank's counters, by our own clock: wall clocks jump.
  struct Seen {
    SeenCount beats, progress;
  };
  std::vector<Seen> seen; ///< by rank of the job
  std::thread thread;
};

} // namespace zc::train
