#include "base/Blocking.h"

#include "base/Clock.h"
#include "base/Failpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace zc {

namespace {

constexpr size_t kThreads = 1024; ///< that can be seen at a time; further ones do their work unseen

/// One thread's place in the table. Only the owner writes, and others hardly ever look: the lock is free.
struct Slot {
  std::atomic<bool> isTaken{false};
  std::mutex mutex; // of what follows
  int depth = 0;
  int rank = -1;
  int64_t step = -1, since = 0;
  uint64_t passed = 0; ///< by threads of `rank`
  const char *doing = nullptr;
  std::array<char, 256> what{};
};

std::array<Slot, kThreads> &slots() {
  static auto *table = new std::array<Slot, kThreads>(); // threads may outlive static objects
  return *table;
}

/// Takes a slot when first needed, and gives it back when the thread ends.
struct Own {
  Own() {
    for (Slot &each : slots())
      if (bool isTaken = false; each.isTaken.compare_exchange_strong(isTaken, true)) {
        slot = &each;
        return;
      }
  }
  ~Own() {
    if (slot)
      slot->isTaken.store(false);
  }
  Slot *slot = nullptr;
};
Slot *own() {
  thread_local Own own;
  return own.slot;
}

} // namespace

Blocking::Blocking(const char *doing, const std::string &what) {
  Slot *slot = own();
  if (!slot)
    return;
  std::lock_guard<std::mutex> lock(slot->mutex);
  if (slot->depth++ > 0)
    return;
  if (slot->rank != faultRank()) {
    slot->rank = faultRank();
    slot->passed = 0;
  }
  slot->step = faultStep();
  slot->since = nanoseconds();
  slot->doing = doing;
  // Of a long name the end says more.
  size_t length = std::min(what.size(), slot->what.size() - 1);
  std::memcpy(slot->what.data(), what.data() + what.size() - length, length);
  slot->what[length] = '\0';
}

Blocking::~Blocking() {
  Slot *slot = own();
  if (!slot)
    return;
  std::lock_guard<std::mutex> lock(slot->mutex);
  if (--slot->depth == 0) {
    slot->since = 0;
    ++slot->passed;
  }
}

std::vector<BlockedThread> blockedThreads(int64_t ns) {
  std::vector<BlockedThread> found;
  const int64_t now = nanoseconds();
  for (Slot &slot : slots())
    if (slot.isTaken.load()) {
      std::lock_guard<std::mutex> lock(slot.mutex);
      if (slot.since != 0 && now - slot.since > ns)
        found.push_back({slot.rank, slot.step, slot.since, std::string(slot.doing) + " \"" + slot.what.data() + "\""});
    }
  return found;
}

bool finishesWithin(double seconds, std::function<void()> work) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable over;
    bool isOver = false;
  };
  auto shared = std::make_shared<Shared>();
  try {
    std::thread([shared, work = std::move(work)] {
      work();
      std::lock_guard<std::mutex> lock(shared->mutex);
      shared->isOver = true;
      shared->over.notify_all();
    }).detach();
  } catch (const std::system_error &) {
    return false;
  }
  std::unique_lock<std::mutex> lock(shared->mutex);
  return shared->over.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return shared->isOver; });
}

uint64_t blockingsPassed(int rank) {
  uint64_t passed = 0;
  for (Slot &slot : slots())
    if (slot.isTaken.load()) {
      std::lock_guard<std::mutex> lock(slot.mutex);
      passed += slot.rank == rank ? slot.passed : 0;
    }
  return passed;
}

} // namespace zc
