#include "runtime/device/Fake.h"

#include "runtime/base/Failpoint.h"
#include "runtime/base/SignalStack.h"
#include "runtime/base/Working.h"
#include "runtime/device/Arena.h"
#include "runtime/device/Caught.h"

#include <algorithm>
#include <atomic>
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

  FakeStream(uint64_t seed, int rank, std::function<std::string(uint32_t)> name)
      : kernels(rank, std::move(name)), random(seed), thread([this] { serve(); }) {}
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
    add([to, from, bytes] {
      World &world = World::instance();
      std::memcpy(world.translate(to), world.translate(from), bytes);
    });
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

  Working kernels; ///< which one it is at, by number

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
  ~FakeDevice() override { World::instance().release(memories); }

  std::string name() const override { return "threads"; }
  void nameKernels(std::function<std::string(uint32_t)> how) override { nameOf = std::move(how); }
  Target target() const override { return registry.target(); }
  Result<void *> allocate(uint64_t bytes) override { return World::instance().allocate(bytes, memories); }
  Status pin(void *, uint64_t) override { return {}; }
  Result<void *> allocatePinned(uint64_t bytes) override {
    Result<Arena> arena = Arena::map(bytes);
    if (!arena)
      return arena.error();
    pinned.push_back(std::move(*arena));
    return static_cast<void *>(pinned.back().data());
  }
  Status read(void *to, const void *from, uint64_t bytes) override {
    std::memcpy(to, World::instance().translate(from), bytes);
    return {};
  }
  Status write(void *to, const void *from, uint64_t bytes) override {
    std::memcpy(World::instance().translate(to), from, bytes);
    return {};
  }
  Result<std::unique_ptr<Stream>> makeStream() override {
    return std::unique_ptr<Stream>(std::make_unique<FakeStream>(random(), options.rank, nameOf));
  }
  Result<std::unique_ptr<Event>> makeEvent() override { return std::unique_ptr<Event>(std::make_unique<FakeEvent>()); }

  Result<std::unique_ptr<DeviceKernel>> prepare(const KernelSpec &spec, uint32_t number) override {
    Result<std::unique_ptr<Kernel>> kernel = registry.prepare(spec);
    if (!kernel)
      return kernel.error();
    return std::unique_ptr<DeviceKernel>(std::make_unique<Launched>(*this, spec, std::move(*kernel), number));
  }
  Result<std::unique_ptr<Lane>> makeLane(Stream &stream) override {
    return std::unique_ptr<Lane>(std::make_unique<FakeLane>(*this, static_cast<FakeStream &>(stream)));
  }

  std::optional<Fault> fault() const override {
    std::lock_guard<std::mutex> lock(mutex);
    return first;
  }

private:
  /// Collectives in the order of a stream. What is on its way knows the device only: an error may end the lane first.
  class FakeLane : public Lane {
  public:
    FakeLane(FakeDevice &device, FakeStream &stream) : device(device), stream(stream) {}
    Status copy(void *to, const void *from, uint64_t bytes) override {
      stream.add([&device = device, to, from, bytes] {
        auto *target = static_cast<char *>(World::instance().translate(to));
        auto *source = static_cast<char *>(World::instance().translate(from));
        touch(device, {{source, source + bytes, false}, {target, target + bytes, true}},
              [&] { std::memcpy(target, source, bytes); });
      });
      return {};
    }
    Status sum(const OrderedSum &sum) override {
      std::vector<const void *> inputs(sum.inputs, sum.inputs + sum.ranks);
      stream.add([&device = device, own = sum, inputs = std::move(inputs)]() mutable { add(device, own, inputs); });
      return {};
    }
    Result<std::shared_ptr<const Event>> mark() override {
      std::shared_ptr<FakeEvent> &event = events[++marks % 2];
      ZC_RETURN_IF_ERROR(stream.record(*event));
      return std::shared_ptr<const Event>(event);
    }
    Status follow(const Event &mark) override { return stream.wait(mark); }

  private:
    static void add(FakeDevice &device, OrderedSum &sum, std::vector<const void *> &inputs) {
      auto size = static_cast<uint64_t>(sizeOf(sum.inputType));
      sum.output = World::instance().translate(sum.output);
      auto *result = static_cast<char *>(sum.output);
      std::vector<Accesses::Range> ranges = {
          {result, result + sum.elements * static_cast<uint64_t>(sizeOf(sum.outputType)), true}};
      for (const void *&input : inputs) {
        auto *first = static_cast<char *>(World::instance().translate(input));
        input = first;
        ranges.push_back({first + sum.skip * size, first + (sum.skip + sum.elements) * size, false});
      }
      sum.inputs = inputs.data();
      touch(device, std::move(ranges), [&] { orderedSum(sum); });
    }
    template <typename Work> static void touch(FakeDevice &device, std::vector<Accesses::Range> ranges, Work work) {
      if (!World::instance().accesses.around(std::move(ranges), work))
        device.note({}, beside("a collective"));
    }

    FakeDevice &device;
    FakeStream &stream;
    std::shared_ptr<FakeEvent> events[2] = {std::make_shared<FakeEvent>(), std::make_shared<FakeEvent>()};
    uint32_t marks = 0;
  };

  static Error beside(const std::string &what) {
    return makeError(Code::internal, 581, what + " ran beside one that touches the same bytes");
  }

  /// Runs a kernel of the host on what the device's addresses stand for.
  class Launched : public DeviceKernel {
  public:
    Launched(FakeDevice &device, const KernelSpec &spec, std::unique_ptr<Kernel> kernel, uint32_t number)
        : device(device), kernel(std::move(kernel)), number(number), name(spec.name), inputs(spec.numInputs) {
      for (const TensorType &type : spec.operands)
        bytes.push_back(type.numBytes());
      if (spec.workspace > 0)
        bytes.push_back(spec.workspace);
    }
    Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
      // Operands are kept by who prepared the step; the context only as long as the step runs, as on a GPU.
      auto &fake = static_cast<FakeStream &>(stream);
      fake.add([this, &fake, operands, at = context.device] { run(operands, at, fake.kernels); });
      return {};
    }

  private:
    void run(void *const *operands, const StepContext *at, Working &sign) {
      std::vector<void *> real;
      std::vector<Accesses::Range> ranges;
      for (size_t i = 0; i < bytes.size(); ++i) {
        auto *begin = static_cast<char *>(World::instance().translate(operands[i]));
        real.push_back(begin);
        ranges.push_back({begin, begin + bytes[i], i >= inputs});
      }
      StepContext context = *static_cast<const StepContext *>(World::instance().translate(at));
      setFaultContext(device.options.rank, context.step);
      if (device.isLost())
        return;
      Status status;
      sign.begin(number, context.step);
      bool isAlone = World::instance().accesses.around(std::move(ranges), [&] {
        status = caught([&] {
          (void)failpoint("kernel.run"); // one that takes its time
          return kernel->run(real.data(), context);
        });
      });
      sign.end();
      if (!isAlone)
        status = beside("kernel '" + name + "'");
      if (!status.ok())
        device.note(number, status.error());
    }

    FakeDevice &device;
    std::unique_ptr<Kernel> kernel;
    uint32_t number;
    std::string name;
    size_t inputs;
    std::vector<int64_t> bytes;
  };

  /// As after an Xid: nothing that is enqueued is done any more, and the host finds out when it asks.
  bool isLost() {
    if (failpoint("device.lost") && !lost.exchange(true))
      note({}, makeError(Code::peerLost, 583, "the device of rank " + std::to_string(options.rank) + " is lost", {},
                         "resume from the last checkpoint"));
    return lost;
  }
  void note(std::optional<uint32_t> number, Error error) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!first)
      first = Fault{number, std::move(error)};
  }

  const KernelRegistry &registry;
  FakeOptions options;
  std::function<std::string(uint32_t)> nameOf = [](uint32_t number) { return "computing " + std::to_string(number); };
  std::minstd_rand random;
  std::list<FakeMemory> memories; // all are made before streams work
  std::list<Arena> pinned;
  std::atomic<bool> lost{false};
  mutable std::mutex mutex; // of `first`
  std::optional<Fault> first;
};

} // namespace

std::unique_ptr<Device> makeFakeDevice(const KernelRegistry &registry, const FakeOptions &options) {
  return std::make_unique<FakeDevice>(registry, options);
}

} // namespace zc
