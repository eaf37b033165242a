//===- Watchdog.h - nobody waits for ever -------------------------------------------------===//
#pragma once

#include "runtime/comm/FlightRecorder.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace zc::train {

/// A thread that looks at this process's ranks: when one has been inside a collective for longer than it may, the
/// flight recorder is written to a file and `end` is called, once. While some rank says that it gets on
/// (FlightLog::getOn: it is saving) waiting for it is no reason.
class Watchdog {
public:
  using End = std::function<void(const Error &)>;
  Watchdog() = default;
  ~Watchdog() { stop(); }

  /// `seconds` > 0. The recorder must outlive the watchdog; ranks [first, first + count) are this process's. The first
  /// watchdog of a job that notices says why; the others give it a second and then end without words (an error without
  /// a message).
  void start(FlightRecorder &recorder, int first, int count, double seconds, std::string file, End end);
  void stop();

private:
  void watch();
  void fire(int rank);

  FlightRecorder *recorder = nullptr;
  int first = 0, count = 0;
  double seconds = 0;
  std::string file;
  End end;
  std::mutex mutex; // of `stopping`
  std::condition_variable wake;
  bool stopping = false;
  std::thread thread;
};

} // namespace zc::train
