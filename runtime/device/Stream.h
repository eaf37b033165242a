//===- Stream.h - a processor with memory of its own, as an executor sees it ----===//
//
// The seam between executing a plan and a GPU: memory, streams, events, copies, calls of the host in a stream's order,
// and kernels that are enqueued. Work on a stream runs in order; streams run beside each other but for waits. Behind it
// stand a GPU's driver, or threads (Fake.h), which show on any machine whether an order was only luck. What a stream is
// given again and again can be captured once, and is then one call of the host however much it is.
//
// Nothing here waits unless it says so; nothing is allocated after preparing, on the host or the device, but what a
// graph takes when it is made.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"
#include "runtime/comm/DeviceLinks.h"
#include "runtime/device/Timeline.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace zc {

/// A place in a stream's work: the last one recorded. Waiting for what was never recorded is over at once.
class Event {
public:
  virtual ~Event() = default;
};

/// A place in a stream's work, and when it was passed last, by the device's clock.
class Stamp {
public:
  virtual ~Stamp() = default;
};

/// Work of a stream, captured. It must not go while it is at work, and goes before its device.
class Graph {
public:
  virtual ~Graph() = default;
};

/// Called by one thread at a time. Errors: the device refused, or is lost.
class Stream {
public:
  virtual ~Stream() = default;
  /// `to` and `from` in the device's memory or in pinned memory; they do not overlap.
  virtual Status copy(void *to, const void *from, uint64_t bytes) = 0;
  virtual Status record(Event &event) = 0;
  virtual Status stamp(Stamp &stamp) = 0;
  /// Later work comes after what `event`, of this device, was last recorded behind.
  virtual Status wait(const Event &event) = 0;
  /// Later work comes after the host's timeline, whose word is in pinned memory, has reached `target` or has failed.
  virtual Status wait(const Timeline &timeline, uint64_t target) = 0;
  /// The host calls function(argument) when all work before is done, and later work comes after; also when the device
  /// is lost. It may not call the device.
  virtual Status call(void (*function)(void *), void *argument) = 0;
  /// Waits until all work is done.
  virtual Status drain() = 0;

  /// What this thread enqueues from now on is noted and not done: repeatable kernels and copies, nothing else, and
  /// nothing else may be asked of the device meanwhile.
  virtual Status beginCapture() = 0;
  /// What was noted, with the addresses that it was given; must follow beginCapture. Errors: something in between
  /// cannot be captured.
  virtual Result<std::unique_ptr<Graph>> endCapture() = 0;
  /// Does all of a graph's work, in its order; the graph is of a stream of this device.
  virtual Status replay(Graph &graph) = 0;
};

/// What changes from execution to execution, where the host's calls and where kernels find it.
struct EnqueuedContext {
  const StepContext *host = nullptr;   ///< until all work of the step is done
  const StepContext *device = nullptr; ///< in memory of the device
  uint32_t slot = 0;                   ///< counts contexts that may be in use at once, from 0
};

/// A kernel of the device, prepared once. `enqueue` is called from one thread at a time and returns at once.
class DeviceKernel {
public:
  virtual ~DeviceKernel() = default;
  /// As Kernel::run, on addresses of the device. Errors: the device refused. What the kernel finds wrong (an index out
  /// of range) is told by Device::fault().
  virtual Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) = 0;
  /// Is what it enqueues the same each time, but for what the device's context holds, and without the host's part?
  virtual bool isRepeatable() const { return true; }
};

/// What a library chose for a kernel while it was prepared.
struct LibraryChoice {
  std::string library, asked, taken; ///< its name, the shape and all else that decides, the algorithm
};

/// One processor, for one rank.
class Device {
public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// Whose kernels it has.
  virtual Target target() const { return Target::cuda; }

  /// Zeroed; of the device, until it goes. Errors: not to be had (budget).
  virtual Result<void *> allocate(uint64_t bytes) = 0;
  /// Once the plan's memory is allocated: is there room for what libraries take beside it? Errors: budget.
  virtual Status checkRoom() const { return {}; }
  /// Memory of the host that copies of the device can read and write; until the device goes.
  virtual Status pin(void *memory, uint64_t bytes) = 0;
  /// Zeroed and pinned. Errors: not to be had (budget).
  virtual Result<void *> allocatePinned(uint64_t bytes) = 0;
  /// Any memory, at once; while no stream is at work.
  virtual Status read(void *to, const void *from, uint64_t bytes) = 0;
  virtual Status write(void *to, const void *from, uint64_t bytes) = 0;
  /// Of the device: zeros.
  virtual Status clear(void *bytes, uint64_t count) = 0;

  virtual Result<std::unique_ptr<Stream>> makeStream() = 0;
  /// Can its streams be captured?
  virtual bool hasGraphs() const { return true; }
  virtual Result<std::unique_ptr<Event>> makeEvent() = 0;
  virtual Result<std::unique_ptr<Stamp>> makeStamp() = 0;
  /// From one stamp to a later one; both were passed, after what the host has waited for.
  virtual Result<int64_t> nanosecondsBetween(const Stamp &from, const Stamp &to) const = 0;

  /// Kernels that will be prepared: what takes long of them is done on `threads` threads. What is wrong with one is
  /// said when it is prepared.
  virtual void foresee(const std::vector<KernelSpec> &, int /*threads*/) {}
  /// The registry's kernel; faults carry `number`. Errors as KernelRegistry::prepare.
  virtual Result<std::unique_ptr<DeviceKernel>> prepare(const KernelSpec &spec, uint32_t number) = 0;
  /// For collectives of ranks of one process, whose devices are of one kind. The stream outlives it; what was issued on
  /// it may not be over when it ends.
  virtual Result<std::unique_ptr<Lane>> makeLane(Stream &stream) = 0;
  /// For collectives of ranks that are processes. Null: the device has none, and what they send goes through the host.
  virtual Result<std::unique_ptr<DeviceLinks>> makeLinks() { return std::unique_ptr<DeviceLinks>(); }

  /// What was found wrong first, of all whose work is done: everything after it is worthless.
  struct Fault {
    std::optional<uint32_t> kernel; ///< its number, if it is known
    Error error;
  };
  virtual std::optional<Fault> fault() const = 0;

  /// Before streams are made: what a kernel's number stands for ("computing \"gelu\" of node ..."), asked from other
  /// threads, for a device that can tell whoever watches (Working) which kernel each of its streams is at.
  virtual void nameKernels(std::function<std::string(uint32_t number)>) {}

  /// What libraries chose for the kernels that were prepared, here or on another device of the process.
  virtual std::vector<LibraryChoice> choices() const { return {}; }
  /// The device as a library asks for it where it is not there (test/cuda/devices); empty: nobody asks.
  virtual Result<std::string> description() const { return std::string(); }
  /// What the user should know of it; a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

} // namespace zc
