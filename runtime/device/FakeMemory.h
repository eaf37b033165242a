//===- FakeMemory.h - memory of devices made of threads -----------------------------===//
#pragma once

#include "runtime/device/Arena.h"

#include <list>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace zc {

/// Memory of the device: what the host is told is a range that nobody may touch.
class FakeMemory {
public:
  static Result<FakeMemory> map(uint64_t bytes) {
    FakeMemory memory;
    Result<Arena> arena = Arena::map(bytes);
    if (!arena)
      return arena.error();
    memory.real = std::move(*arena);
    if (memory.real.bytes() == 0)
      return memory;
    void *shown = ::mmap(nullptr, memory.real.bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shown == MAP_FAILED)
      return makeError(Code::budget, 580, "cannot reserve " + std::to_string(bytes) + " addresses");
    memory.shown = static_cast<char *>(shown);
    return memory;
  }
  FakeMemory(FakeMemory &&other) noexcept : real(std::move(other.real)), shown(std::exchange(other.shown, nullptr)) {}
  FakeMemory &operator=(FakeMemory &&) = delete;
  ~FakeMemory() {
    if (shown)
      ::munmap(shown, real.bytes());
  }
  char *address() const { return shown; }
  /// The bytes behind an address of this memory; null for others.
  char *translate(const void *address) const {
    auto *at = static_cast<const char *>(address);
    return shown && at >= shown && at < shown + real.bytes() ? real.data() + (at - shown) : nullptr;
  }

private:
  FakeMemory() = default;
  Arena real;
  char *shown = nullptr;
};

/// Byte ranges that kernels at work read and write, of all devices of the process.
class Accesses {
public:
  struct Range {
    const char *begin, *end;
    bool writes;
  };
  using Kernel = std::list<std::vector<Range>>::iterator;

  /// Notes a kernel; false if it meets one at work.
  bool enter(std::vector<Range> ranges, Kernel &kernel) {
    std::lock_guard<std::mutex> lock(mutex);
    auto meets = [](const Range &a, const Range &b) {
      return (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
    };
    bool isAlone = true;
    for (const auto &other : atWork)
      for (const Range &a : other)
        for (const Range &b : ranges)
          isAlone = isAlone && !meets(a, b);
    kernel = atWork.insert(atWork.end(), std::move(ranges));
    return isAlone;
  }
  void leave(Kernel kernel) {
    std::lock_guard<std::mutex> lock(mutex);
    atWork.erase(kernel);
  }
  /// Does work that touches ranges; false if it met other work.
  template <typename Work> bool around(std::vector<Range> ranges, Work work) {
    Kernel mine;
    bool isAlone = enter(std::move(ranges), mine);
    work();
    leave(mine);
    return isAlone;
  }

private:
  std::mutex mutex;
  std::list<std::vector<Range>> atWork;
};

/// What the devices of a process have in common: each may be given addresses of the others.
class World {
public:
  static World &instance() {
    static World world;
    return world;
  }
  Result<void *> allocate(uint64_t bytes, std::list<FakeMemory> &owner) {
    Result<FakeMemory> memory = FakeMemory::map(bytes);
    if (!memory)
      return memory.error();
    std::lock_guard<std::mutex> lock(mutex);
    owner.push_back(std::move(*memory));
    known.push_back(&owner.back());
    return static_cast<void *>(owner.back().address());
  }
  void release(std::list<FakeMemory> &owner) {
    std::lock_guard<std::mutex> lock(mutex);
    for (const FakeMemory &memory : owner)
      known.remove(&memory);
    owner.clear();
  }
  /// Where an address of a device, or of the host, really is.
  void *translate(const void *address) const {
    std::lock_guard<std::mutex> lock(mutex);
    for (const FakeMemory *memory : known)
      if (char *real = memory->translate(address))
        return real;
    return const_cast<void *>(address);
  }
  Accesses accesses;

private:
  mutable std::mutex mutex;
  std::list<const FakeMemory *> known;
};

} // namespace zc
