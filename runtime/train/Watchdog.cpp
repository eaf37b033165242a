#include "runtime/train/Watchdog.h"

#include "base/BlockedSignals.h"
#include "base/Clock.h"
#include "base/Limits.h"
#include "base/Working.h"
#include "runtime/io/OutputFile.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace zc::train {

static std::string inSeconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f s", double(ns) / 1e9);
  return text;
}

void Watchdog::start(int first, int count, double seconds, End end) {
  this->first = first;
  this->count = count;
  this->seconds = seconds;
  this->end = std::move(end);
  passed.assign(size_t(count), {});
  awaited.reserve(size_t(count)); // a steady step allocates nothing
  thread = std::thread([this] { watch(); });
}

void Watchdog::explain(const std::atomic<int> *stop, std::function<void(const std::string &)> say) {
  asked = stop;
  this->say = std::move(say);
  oomKillsBefore = oomKills();
}

void Watchdog::explainStop() {
  if (!say || !asked || asked->load(std::memory_order_relaxed) == 0)
    return;
  if (uint64_t kills = oomKills(); kills > oomKillsBefore)
    say("the system killed a process for want of memory since this run began (oom_kill rose from " +
        std::to_string(oomKillsBefore) + " to " + std::to_string(kills) +
        "); if a rank was lost, compile for more ranks, a higher ZeRO stage or a smaller batch, or give --reserve");
  say = nullptr;
}

void Watchdog::observe(FlightRecorder &recorder, std::string file) {
  std::lock_guard<std::mutex> lock(mutex);
  this->recorder = &recorder;
  this->file = std::move(file);
  seen.assign(size_t(recorder.worldSize()), {{0, nanoseconds()}, {}});
  // A rank may be stopped before the first look: its silence tells only after a sign.
  for (int rank = first; rank < first + count; ++rank)
    recorder.log(rank).beat();
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
  BlockedSignals blocked;
  auto pause = std::chrono::duration<double>(std::clamp(seconds / 8, 0.05, 0.5));
  std::unique_lock<std::mutex> lock(mutex);
  lookedAt = awakeSince = nanoseconds();
  while (!wake.wait_for(lock, pause, [this] { return stopping; })) {
    explainStop();
    int64_t now = nanoseconds();
    if (double(now - std::exchange(lookedAt, now)) / 1e9 > std::max(seconds / 2, 4 * pause.count()))
      awakeSince = now;
    const auto forLong = int64_t(std::min(seconds, 1e9) * 1e9 / 4);
    std::vector<BlockedThread> blocked = blockedThreads(forLong), working = workingThreads(forLong);
    blocked.insert(blocked.end(), working.begin(), working.end()); // what a kernel reads is named first
    lookAtAwaited(awaited);
    if (recorder)
      note(blocked, forLong);
    if (std::string why = reason(blocked, int64_t(2e9 * pause.count())); !why.empty())
      return fire(why);
  }
}

void Watchdog::note(const std::vector<BlockedThread> &blocked, int64_t forLong) {
  int64_t now = nanoseconds();
  for (int rank = first; rank < first + count; ++rank) {
    FlightLog &log = recorder->log(rank);
    log.beat();
    uint64_t soFar = blockingsPassed(rank);
    for (const AwaitedWork &work : awaited)
      soFar += work.rank == rank ? work.seen.count() : 0;
    if (passed[size_t(rank - first)].look(soFar, now))
      log.getOn();
    const bool isStuck = std::any_of(awaited.begin(), awaited.end(), [&](const AwaitedWork &work) {
      return work.rank == rank && now - work.seen.since() > forLong;
    });
    if (isStuck || !log.queues().empty())
      log.setQueues(isStuck ? whereAwaited(rank) : std::string());
    const BlockedThread *longest = nullptr;
    for (const BlockedThread &thread : blocked)
      if (thread.rank == rank && (!longest || thread.since < longest->since))
        longest = &thread;
    log.setPlace(longest ? longest->where : "", longest ? now - longest->since : 0);
  }
  for (int rank = 0; rank < recorder->worldSize(); ++rank) {
    seen[size_t(rank)].beats.look(recorder->log(rank).beats(), now);
    seen[size_t(rank)].progress.look(recorder->log(rank).timesGotOn(), now);
  }
}

std::string Watchdog::reason(const std::vector<BlockedThread> &blocked, int64_t later) {
  int64_t now = nanoseconds(), most = int64_t(std::min(seconds, 1e9) * 1e9);
  if (now - awakeSince <= most)
    return "";
  for (const BlockedThread &thread : blocked)
    if (now - thread.since > most) {
      std::string who = thread.rank >= 0 ? "rank " + std::to_string(thread.rank)
                        : count == 1     ? "rank " + std::to_string(first)
                                         : "this process";
      return who + " has been " + thread.where + " for " + inSeconds(now - thread.since) +
             (thread.step > 0 ? ", in step " + std::to_string(thread.step) : "");
    }
  auto getsOn = [&](const Seen &each) { return each.progress.count() != 0 && now - each.progress.since() <= most; };
  if (!recorder || std::any_of(seen.begin(), seen.end(), getsOn))
    return "";
  auto explain = [&](int rank) {
    std::vector<int64_t> silent;
    for (const Seen &each : seen)
      silent.push_back(each.beats.count() > 0 ? now - each.beats.since() : 0);
    return recorder->explain(rank, silent, most / 2);
  };
  for (int rank = first; rank < first + count; ++rank)
    if (int64_t since = recorder->log(rank).insideSince(); since != 0 && now - since > most)
      return explain(rank);
  // Collectives and kernels of the host, which say where they are, go first.
  for (const AwaitedWork &work : awaited)
    if (now - work.seen.since() > most + later)
      return explain(work.rank);
  return "";
}

void Watchdog::fire(const std::string &why) {
  if (recorder && !recorder->claim()) {
    // The rank that tells ends, and the launcher then ends this one. Should that take long, it was a rank that nobody
    // can reach any more, and nobody has heard it: the lowest of the others tells as well.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500 + std::min(first, 4) * 250));
  }
  char limit[40];
  std::snprintf(limit, sizeof limit, "%g", seconds);
  Error error = makeError(Code::watchdog, 947, std::string("nothing has moved for ") + limit + " s: " + why, "",
                          "if that rank was only slow, give a longer --watchdog");
  if (recorder) {
    // The folder may lie where nothing answers any more.
    auto written = std::make_shared<Status>();
    bool inTime = finishesWithin(
        2, [written, name = file, text = recorder->toJson()] { *written = io::replaceFile(name, text); });
    error.note = !inTime         ? "the flight recorder could not be written: \"" + file + "\" does not answer"
                 : written->ok() ? "the last collectives of every rank are in \"" + file + "\""
                                 : "the flight recorder could not be written: " + written->error().message;
  }
  end(error);
}

} // namespace zc::train
