//===- SerialThread.h - work that is done one piece after the other -------------------===//
#pragma once

#include "base/SignalStack.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

namespace zc {

/// Does work in the order in which it is added, on a thread of its own; sometimes late, as a device's stream may be,
/// where `lateness` seeds that. What is left when it is destroyed is done first.
class SerialThread {
public:
  explicit SerialThread(std::optional<uint64_t> lateness)
      : isLate(lateness.has_value()), random(static_cast<unsigned>(lateness.value_or(0))), thread([this] { serve(); }) {
  }
  ~SerialThread() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }

  void add(std::function<void()> work) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      waiting.push_back(std::move(work));
    }
    changed.notify_all();
  }
  /// Waits until all of it is done.
  void drain() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return waiting.empty() && !isAtWork; });
  }
  bool isIdle() {
    std::lock_guard<std::mutex> lock(mutex);
    return waiting.empty() && !isAtWork;
  }
  /// Called by work that has several pieces, between them: late, sometimes by more than others take.
  void idle() {
    if (isLate && random() % 16 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  }

private:
  void serve() {
    SignalStack stack;
    for (std::function<void()> work;; work = nullptr) {
      {
        std::unique_lock<std::mutex> lock(mutex);
        isAtWork = false;
        changed.notify_all();
        changed.wait(lock, [&] { return ends || !waiting.empty(); });
        if (waiting.empty())
          return;
        work = std::move(waiting.front());
        waiting.pop_front();
        isAtWork = true;
      }
      idle();
      work();
    }
  }

  const bool isLate;
  std::minstd_rand random; // of the thread's
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  bool isAtWork = false, ends = false;
  std::thread thread; // last: it uses the others
};

} // namespace zc
