#include "runtime/device/Fake.h"

#include "base/Clock.h"
#include "base/Failpoint.h"
#include "base/Working.h"
#include "runtime/device/Caught.h"
#include "runtime/device/FakeMemory.h"
#include "runtime/device/SerialThread.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

namespace zc {

namespace {

/// Counts how often it was recorded, and how many of these are behind us.
class FakeEvent : public Event {
public:
  std::mutex mutex;
  std::condition_variable passed;
  uint64_t recorded = 0, done = 0;
};

class FakeStamp : public Stamp {
public:
  std::atomic<int64_t> time{0};
};

using Work = std::function<void()>;

class FakeGraph : public Graph {
public:
  explicit FakeGraph(std::vector<Work> work) : work(std::move(work)) {}
  const std::vector<Work> work;
};

/// What the streams of a device share.
struct FakeState {
  std::atomic<uint64_t> *enqueued;
  std::atomic<int> captures{0};                             ///< streams that are captured now
  std::vector<std::pair<const char *, uint64_t>> reachable; ///< memory, of both, that copies reach

  void reach(const void *memory, uint64_t bytes) { reachable.emplace_back(static_cast<const char *>(memory), bytes); }
  bool reaches(const void *address) const {
    return std::any_of(reachable.begin(), reachable.end(), [&](const auto &range) {
      return address >= range.first && address < range.first + range.second;
    });
  }
  /// Is `what` asked for while a stream is captured? A GPU's driver takes that for an error as well.
  Status refuseCaptured(const char *what) const {
    return captures == 0
               ? Status()
               : makeError(Code::internal, 584, std::string("a stream that is being captured is asked to ") + what);
  }
};

class FakeStream : public Stream {
public:
  FakeStream(FakeState &device, uint64_t seed, int rank, std::function<std::string(uint32_t)> name)
      : kernels(rank, std::move(name)), device(device), thread(seed) {}

  void add(Work work) {
    if (captured) {
      captured->push_back(std::move(work));
      return;
    }
    if (device.enqueued)
      ++*device.enqueued;
    thread.add(std::move(work));
  }

  Status copy(void *to, const void *from, uint64_t bytes) override {
    if (captured && !(device.reaches(to) && device.reaches(from)))
      return device.refuseCaptured("copy memory of the host that is not pinned");
    add([to, from, bytes] {
      World &world = World::instance();
      std::memcpy(world.translate(to), world.translate(from), bytes);
    });
    return {};
  }
  Status record(Event &event) override {
    ZC_RETURN_IF_ERROR(refuseCaptured("record an event that others wait for"));
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
  Status stamp(Stamp &stamp) override {
    ZC_RETURN_IF_ERROR(refuseCaptured("keep a time"));
    add([&time = static_cast<FakeStamp &>(stamp).time] { time = nanoseconds(); });
    return {};
  }
  Status wait(const Event &event) override {
    ZC_RETURN_IF_ERROR(refuseCaptured("wait for another stream"));
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
    ZC_RETURN_IF_ERROR(refuseCaptured("wait for the host"));
    add([&timeline, target] { (void)const_cast<Timeline &>(timeline).waitFor(target); });
    return {};
  }
  Status call(void (*function)(void *), void *argument) override {
    ZC_RETURN_IF_ERROR(refuseCaptured("call the host"));
    add([function, argument] { function(argument); });
    return {};
  }
  Status drain() override {
    ZC_RETURN_IF_ERROR(refuseCaptured("finish its work"));
    thread.drain();
    return {};
  }

  Status beginCapture() override {
    ZC_RETURN_IF_ERROR(refuseCaptured("begin"));
    captured.emplace();
    ++device.captures;
    return {};
  }
  Result<std::unique_ptr<Graph>> endCapture() override {
    if (!captured)
      return makeError(Code::internal, 585, "a stream that is not being captured is asked to end that");
    std::unique_ptr<Graph> graph = std::make_unique<FakeGraph>(std::move(*captured));
    captured.reset();
    --device.captures;
    if (failpoint("stream.capture"))
      return makeError(Code::internal, 582, "a stream's work cannot be captured");
    return graph;
  }
  Status replay(Graph &graph) override {
    ZC_RETURN_IF_ERROR(refuseCaptured("do a graph's work"));
    add([this, &work = static_cast<FakeGraph &>(graph).work] {
      for (const Work &each : work) {
        thread.idle();
        each();
      }
    });
    return {};
  }

  Working kernels; ///< which one it is at, by number

private:
  Status refuseCaptured(const char *what) const { return captured ? device.refuseCaptured(what) : Status(); }

  FakeState &device;
  std::optional<std::vector<Work>> captured; // of the thread that enqueues
  SerialThread thread;                       // last: its work uses the others
};

class FakeDevice : public Device {
public:
  FakeDevice(const KernelRegistry &registry, const FakeOptions &options)
      : registry(registry), options(options), random(options.seed) {
    state.enqueued = options.enqueued;
  }
  ~FakeDevice() override { World::instance().release(memories); }

  std::string name() const override { return "threads"; }
  void nameKernels(std::function<std::string(uint32_t)> how) override { nameOf = std::move(how); }
  Target target() const override { return registry.target(); }
  Result<void *> allocate(uint64_t bytes) override {
    ZC_RETURN_IF_ERROR(state.refuseCaptured("allocate"));
    Result<void *> memory = World::instance().allocate(bytes, memories);
    if (memory)
      state.reach(*memory, bytes);
    return memory;
  }
  Status pin(void *memory, uint64_t bytes) override {
    state.reach(memory, bytes);
    return {};
  }
  Result<void *> allocatePinned(uint64_t bytes) override {
    ZC_RETURN_IF_ERROR(state.refuseCaptured("allocate pinned memory"));
    Result<Arena> arena = Arena::map(bytes);
    if (!arena)
      return arena.error();
    pinned.push_back(std::move(*arena));
    state.reach(pinned.back().data(), bytes);
    return static_cast<void *>(pinned.back().data());
  }
  Status read(void *to, const void *from, uint64_t bytes) override {
    ZC_RETURN_IF_ERROR(state.refuseCaptured("wait for a copy"));
    std::memcpy(to, World::instance().translate(from), bytes);
    return {};
  }
  Status write(void *to, const void *from, uint64_t bytes) override {
    ZC_RETURN_IF_ERROR(state.refuseCaptured("wait for a copy"));
    std::memcpy(World::instance().translate(to), from, bytes);
    return {};
  }
  Status clear(void *bytes, uint64_t count) override {
    ZC_RETURN_IF_ERROR(state.refuseCaptured("write zeroes"));
    std::memset(World::instance().translate(bytes), 0, count);
    return {};
  }
  Result<std::unique_ptr<Stream>> makeStream() override {
    return std::unique_ptr<Stream>(std::make_unique<FakeStream>(state, random(), options.rank, nameOf));
  }
  Result<std::unique_ptr<Event>> makeEvent() override { return std::unique_ptr<Event>(std::make_unique<FakeEvent>()); }
  Result<std::unique_ptr<Stamp>> makeStamp() override { return std::unique_ptr<Stamp>(std::make_unique<FakeStamp>()); }
  Result<int64_t> nanosecondsBetween(const Stamp &from, const Stamp &to) const override {
    return static_cast<const FakeStamp &>(to).time - static_cast<const FakeStamp &>(from).time;
  }

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
  FakeState state;
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
