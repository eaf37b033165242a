//===- Streams.h - streams, events and lanes of a GPU --------------------------------------===//
#pragma once

#include "runtime/cuda/Errors.h"
#include "runtime/device/Stream.h"

#include <atomic>
#include <map>
#include <utility>

namespace zc::cuda {

/// What the streams of a device share.
struct GpuState {
  int ordinal = 0;       ///< of CUDA
  bool isSync = false;   ///< one stream for all, empty when a call returns
  cudaStream_t single{}; ///< that one
  /// What a stream found when the host was called in its order: cudaSuccess, or why the device is lost.
  std::atomic<int> lost{cudaSuccess};
  bool isLeft = false; ///< a stream was left at work, which waits for a GPU that is lost: nothing that it has goes

  /// CUDA's current device is a thread's.
  cudaError_t use() const {
    callsGpu(ordinal);
    return cudaSetDevice(ordinal);
  }
};

class GpuEvent : public Event {
public:
  explicit GpuEvent(cudaEvent_t event) : event(event) {}
  ~GpuEvent() override { (void)cudaEventDestroy(event); }
  static Result<std::unique_ptr<GpuEvent>> make(const GpuState &gpu);
  const cudaEvent_t event;
};

/// An event that keeps its time, to half a microsecond.
class GpuStamp : public Stamp {
public:
  explicit GpuStamp(cudaEvent_t event) : event(event) {}
  ~GpuStamp() override { (void)cudaEventDestroy(event); }
  const cudaEvent_t event;
};

class GpuGraph : public Graph {
public:
  explicit GpuGraph(cudaGraphExec_t executable) : executable(executable) {}
  ~GpuGraph() override { (void)cudaGraphExecDestroy(executable); }
  const cudaGraphExec_t executable;
};

class GpuStream : public Stream {
public:
  GpuStream(GpuState &gpu, cudaStream_t stream) : gpu(gpu), stream(stream) {}
  ~GpuStream() override;
  static Result<std::unique_ptr<Stream>> make(GpuState &gpu);

  Status copy(void *to, const void *from, uint64_t bytes) override;
  Status record(Event &event) override;
  Status stamp(Stamp &stamp) override;
  Status wait(const Event &event) override;
  Status wait(const Timeline &timeline, uint64_t target) override;
  Status call(void (*function)(void *), void *argument) override;
  /// Of a GPU that is lost: until all calls of the host that were asked for are made, which CUDA does then too. Where
  /// another one of this process is, for as long as a stream that does not wait for that one may take; then it is left.
  Status drain() override;
  Status beginCapture() override;
  Result<std::unique_ptr<Graph>> endCapture() override;
  Status replay(Graph &graph) override;

  /// After something was enqueued: on a device that works step by step, waits for it.
  Status settle(const char *what);

  GpuState &gpu;
  const cudaStream_t stream;

private:
  /// Until all work is done; not for ever once a GPU of the process is lost.
  cudaError_t finish();

  /// A function of the host and its argument; kept, since the same ones come again every step.
  struct HostCall {
    GpuStream *stream;
    void (*function)(void *);
    void *argument;
  };
  std::map<std::pair<void (*)(void *), void *>, HostCall> calls;
  std::atomic<uint64_t> pending{0}; ///< calls that are asked for and not made
};

/// Collectives of ranks that are in this process, with the GPUs that they have, one or several.
class GpuLane : public Lane {
public:
  static Result<std::unique_ptr<Lane>> make(GpuStream &stream);
  Status copy(void *to, const void *from, uint64_t bytes) override { return stream.copy(to, from, bytes); }
  Status sum(const OrderedSum &sum) override;
  Result<std::shared_ptr<const Event>> mark() override;
  Status follow(const Event &mark) override { return stream.wait(mark); }

  GpuStream &stream;

private:
  explicit GpuLane(GpuStream &stream) : stream(stream) {}
  Status sumHere(const OrderedSum &sum);
  std::shared_ptr<GpuEvent> events[2];
  uint32_t marks = 0;
};

} // namespace zc::cuda
