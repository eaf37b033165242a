#include "runtime/device/Fake.h"

#include "runtime/base/Failpoint.h"
#include "runtime/base/SignalStack.h"
#include "runtime/device/Arena.h"
#include "runtime/device/Caught.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace zc {

namespace {

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

/// Byte ranges that kernels at work read and write.
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

private:
  std::mutex mutex;
  std::list<std::vector<Range>> atWork;
};

/// Counts how often it was recorded, and how many of these are behind us.
class FakeEvent : public Event {
public:
  std::mutex mutex;
  std::condition_variable passed;
  uint64_t recorded = 0, done = 0;
};

class FakeStream : public Stream {
public:
  using Work = std::function<void()>;
  using Translate = std::function<void *(const void *)>;

  FakeStream(uint64_t seed, Translate translate)
      : translate(std::move(translate)), random(seed), thread([this] { serve(); }) {}
  ~FakeStream() override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }

  void add(Work work) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      waiting.push_back(std::move(work));
    }
    changed.notify_all();
  }

  Status copy(void *to, const void *from, uint64_t bytes) override {
    add([this, to, from, bytes] { std::memcpy(translate(to), translate(from), bytes); });
    return {};
  }
  Status record(Event &event) override {
    auto &fake = static_cast<FakeEvent &>(event);
    uint64_t mine;
    {
      std::lock_guard<std::mutex> lock(fake.mutex);
      mine = ++fake.recorded;
    }
    add([&fake, mine] {
      std::lock_guard<std::mutex> lock(fake.mutex);
      fake.done = mine;
      fake.passed.notify_all();
    });
    return {};
  }
  Status wait(const Event &event) override {
    auto &fake = const_cast<FakeEvent &>(static_cast<const FakeEvent &>(event));
    uint64_t last;
    {
      std::lock_guard<std::mutex> lock(fake.mutex);
      last = fake.recorded;
    }
    add([&fake, last] {
      std::unique_lock<std::mutex> lock(fake.mutex);
      fake.passed.wait(lock, [&] { return fake.done >= last; });
    });
    return {};
  }
  Status wait(const Timeline &timeline, uint64_t target) override {
    add([&timeline, target] { (void)const_cast<Timeline &>(timeline).waitFor(target); });
    return {};
  }
  Status call(void (*function)(void *), void *argument) override {
    add([function, argument] { function(argument); });
    return {};
  }
  Status drain() override {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return waiting.empty() && !isAtWork; });
    return {};
  }

private:
  void serve() {
    SignalStack stack;
    for (;;) {
      Work work;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return ends || !waiting.empty(); });
        if (waiting.empty())
          return;
        work = std::move(waiting.front());
        waiting.pop_front();
        isAtWork = true;
      }
      if (random() % 16 == 0) // late, sometimes by more than others take
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      work();
      {
        std::lock_guard<std::mutex> lock(mutex);
        isAtWork = false;
      }
      changed.notify_all();
    }
  }

  Translate translate;
  std::minstd_rand random;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> waiting;
  bool isAtWork = false, ends = false;
  std::thread thread; // last: it uses the others
};

class FakeDevice : public Device {
public:
  FakeDevice(const KernelRegistry &registry, const FakeOptions &options)
      : registry(registry), options(options), random(options.seed) {}

  std::string name() const override { return "threads"; }
  Target target() const override { return registry.target(); }
  Result<void *> allocate(uint64_t bytes) override {
    Result<FakeMemory> memory = FakeMemory::map(bytes);
    if (!memory)
      return memory.error();
    memories.push_back(std::move(*memory));
    return static_cast<void *>(memories.back().address());
  }
  Status pin(void *, uint64_t) override { return {}; }
  Result<void *> allocatePinned(uint64_t bytes) override {
    Result<Arena> arena = Arena::map(bytes);
    if (!arena)
      return arena.error();
    pinned.push_back(std::move(*arena));
    return static_cast<void *>(pinned.back().data());
  }
  Status read(void *to, const void *from, uint64_t bytes) override {
    std::memcpy(to, translate(from), bytes);
    return {};
  }
  Status write(void *to, const void *from, uint64_t bytes) override {
    std::memcpy(translate(to), from, bytes);
    return {};
  }
  Result<std::unique_ptr<Stream>> makeStream() override {
    return std::unique_ptr<Stream>(
        std::make_unique<FakeStream>(random(), [this](const void *address) { return translate(address); }));
  }
  Result<std::unique_ptr<Event>> makeEvent() override { return std::unique_ptr<Event>(std::make_unique<FakeEvent>()); }

  Result<std::unique_ptr<DeviceKernel>> prepare(const KernelSpec &spec, uint32_t number) override {
    Result<std::unique_ptr<Kernel>> kernel = registry.prepare(spec);
    if (!kernel)
      return kernel.error();
    return launched(spec, std::move(*kernel), [this, number](Error error) { note(number, std::move(error)); });
  }
  Result<std::unique_ptr<DeviceKernel>> prepareCollective(const KernelSpec &spec, std::unique_ptr<Kernel> onHost,
                                                          std::function<void(Error)> failed) override {
    return launched(spec, std::move(onHost), std::move(failed));
  }

  std::optional<Fault> fault() const override {
    std::lock_guard<std::mutex> lock(mutex);
    return first;
  }

private:
  /// Runs a kernel of the host on what the device's addresses stand for.
  class Launched : public DeviceKernel {
  public:
    Launched(FakeDevice &device, const KernelSpec &spec, std::unique_ptr<Kernel> kernel,
             std::function<void(Error)> failed)
        : device(device), kernel(std::move(kernel)), failed(std::move(failed)), name(spec.name),
          inputs(spec.numInputs) {
      for (const TensorType &type : spec.operands)
        bytes.push_back(type.numBytes());
      if (spec.workspace > 0)
        bytes.push_back(spec.workspace);
    }
    Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
      // Operands are kept by who prepared the step; the context only as long as the step runs, as on a GPU.
      static_cast<FakeStream &>(stream).add([this, operands, at = context.device] { run(operands, at); });
      return {};
    }

  private:
    void run(void *const *operands, const StepContext *at) {
      std::vector<void *> real;
      std::vector<Accesses::Range> ranges;
      for (size_t i = 0; i < bytes.size(); ++i) {
        auto *begin = static_cast<char *>(device.translate(operands[i]));
        real.push_back(begin);
        ranges.push_back({begin, begin + bytes[i], i >= inputs});
      }
      StepContext context = *static_cast<const StepContext *>(device.translate(at));
      setFaultContext(device.options.rank, context.step);
      Accesses::Kernel mine;
      bool isAlone = device.accesses.enter(std::move(ranges), mine);
      Status status = caught([&] { return kernel->run(real.data(), context); });
      device.accesses.leave(mine);
      if (!isAlone)
        status = makeError(Code::internal, 581, "kernel '" + name + "' ran beside one that touches the same bytes");
      if (!status.ok())
        failed(status.error());
    }

    FakeDevice &device;
    std::unique_ptr<Kernel> kernel;
    std::function<void(Error)> failed;
    std::string name;
    size_t inputs;
    std::vector<int64_t> bytes;
  };

  Result<std::unique_ptr<DeviceKernel>> launched(const KernelSpec &spec, std::unique_ptr<Kernel> kernel,
                                                 std::function<void(Error)> failed) {
    return std::unique_ptr<DeviceKernel>(std::make_unique<Launched>(*this, spec, std::move(kernel), std::move(failed)));
  }
  /// Where an address of the device, or of the host, really is.
  void *translate(const void *address) const {
    for (const FakeMemory &memory : memories)
      if (char *real = memory.translate(address))
        return real;
    return const_cast<void *>(address);
  }
  void note(uint32_t number, Error error) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!first)
      first = Fault{number, std::move(error)};
  }

  const KernelRegistry &registry;
  FakeOptions options;
  std::minstd_rand random;
  std::list<FakeMemory> memories; // all are made before streams work
  std::list<Arena> pinned;
  Accesses accesses;
  mutable std::mutex mutex; // of `first`
  std::optional<Fault> first;
};

} // namespace

std::unique_ptr<Device> makeFakeDevice(const KernelRegistry &registry, const FakeOptions &options) {
  return std::make_unique<FakeDevice>(registry, options);
}

} // namespace zc
