#include "runtime/train/Watchdog.h"

#include "runtime/base/File.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>

namespace zc::train {

void Watchdog::start(FlightRecorder &recorder, int first, int count, double seconds, std::string file, End end) {
  this->recorder = &recorder;
  this->first = first;
  this->count = count;
  this->seconds = seconds;
  this->file = std::move(file);
  this->end = std::move(end);
  for (int rank = first; rank < first + count; ++rank)
    recorder.log(rank).beat();
  thread = std::thread([this] { watch(); });
}

void Watchdog::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  if (thread.joinable())
    thread.join();
}

void Watchdog::watch() {
  sigset_t all; // signals are the main thread's business
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  auto pause = std::chrono::duration<double>(std::clamp(seconds / 8, 0.05, 1.0));
  std::unique_lock<std::mutex> lock(mutex);
  while (!wake.wait_for(lock, pause, [this] { return stopping; })) {
    timespec now;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    for (int rank = first; rank < first + count; ++rank) {
      recorder->log(rank).beat();
      int64_t since = recorder->log(rank).insideSince();
      if (since != 0 && double(now.tv_sec * int64_t(1000000000) + now.tv_nsec - since) / 1e9 > seconds &&
          !recorder->getsOn(int64_t(std::min(seconds, 1e9) * 1e9)))
        return fire(rank);
    }
  }
}

void Watchdog::fire(int rank) {
  if (!recorder->claim()) {
    // The rank that tells ends, and the launcher then ends this one. Should that take long, it was a rank that nobody
    // can reach any more, and nobody has heard it: the lowest of the others tells as well.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500 + std::min(rank, 4) * 250));
  }
  char limit[40];
  std::snprintf(limit, sizeof limit, "%g", seconds);
  Error error = makeError(Code::watchdog, 947,
                          std::string("nothing has moved for ") + limit +
                              " s: " + recorder->explain(rank, int64_t(seconds * 0.5e9)),
                          "", "if that rank was only slow, give a longer --watchdog");
  Status written = writeFileAtomically(file, recorder->toJson());
  error.note = written.ok() ? "the last collectives of every rank are in \"" + file + "\""
                            : "the flight recorder could not be written: " + written.error().message;
  end(error);
}

} // namespace zc::train
