#include "runtime/cuda/Streams.h"

#include "base/LostDevice.h"
#include "kernels/cuda/GpuRegistry.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/HostMemory.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace zc::cuda {

Result<std::unique_ptr<GpuEvent>> GpuEvent::make(const GpuState &gpu) {
  ZC_CUDA(gpu.use(), "take the GPU");
  cudaEvent_t event;
  ZC_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
  return std::make_unique<GpuEvent>(event);
}

Result<std::unique_ptr<Stream>> GpuStream::make(GpuState &gpu) {
  ZC_CUDA(gpu.use(), "take the GPU");
  if (gpu.isSync && gpu.single)
    return std::unique_ptr<Stream>(std::make_unique<GpuStream>(gpu, gpu.single));
  cudaStream_t stream;
  ZC_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
  if (gpu.isSync)
    gpu.single = stream;
  return std::unique_ptr<Stream>(std::make_unique<GpuStream>(gpu, stream));
}

GpuStream::~GpuStream() {
  if (stream != gpu.single && !gpu.isLeft)
    (void)cudaStreamDestroy(stream);
}

Status GpuStream::settle(const char *what) {
  if (gpu.isSync)
    ZC_CUDA(cudaStreamSynchronize(stream), what);
  return {};
}

Status GpuStream::copy(void *to, const void *from, uint64_t bytes) {
  ZC_CUDA(gpu.use(), "take the GPU");
  // A copy from memory that is not pinned reads it when it is called, not when its turn comes.
  const HostMemory &host = HostMemory::instance();
  bool isNow = host.isUnpinned(to) || host.isUnpinned(from);
  if (isNow)
    ZC_CUDA(cudaStreamSynchronize(stream), "finish a stream's work");
  ZC_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy " + std::to_string(bytes) + " bytes");
  if (isNow)
    ZC_CUDA(cudaStreamSynchronize(stream), "copy " + std::to_string(bytes) + " bytes");
  return settle("copy");
}

Status GpuStream::record(Event &event) {
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaEventRecord(static_cast<GpuEvent &>(event).event, stream), "record an event");
  return {};
}

Status GpuStream::stamp(Stamp &stamp) {
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaEventRecord(static_cast<GpuStamp &>(stamp).event, stream), "keep a time");
  return {};
}

Status GpuStream::wait(const Event &event) {
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaStreamWaitEvent(stream, static_cast<const GpuEvent &>(event).event, 0), "wait for an event");
  return settle("wait for another rank");
}

Status GpuStream::wait(const Timeline &timeline, uint64_t target) {
  if (timeline.hasReached(target))
    return {};
  const Driver &driver = Driver::instance();
  auto waitHere = [&]() -> Status { // in the stream's stead
    (void)const_cast<Timeline &>(timeline).waitFor(target);
    return {};
  };
  if (gpu.isSync || !driver.waitValue)
    return waitHere();
  ZC_CUDA(gpu.use(), "take the GPU");
  auto address = reinterpret_cast<CUdeviceptr>(&timeline.word());
  CUresult status = driver.waitValue(stream, address, target, CU_STREAM_WAIT_VALUE_GEQ);
  if (status == CUDA_ERROR_NOT_SUPPORTED) // by this GPU, whatever its driver
    return waitHere();
  if (status != CUDA_SUCCESS)
    return errorOf(static_cast<cudaError_t>(status), "wait for a word of the host"); // numbers are the runtime's
  return {};
}

/// Not cudaLaunchHostFunc: its functions are not called once the device is lost, and who waits for them would hang.
Status GpuStream::call(void (*function)(void *), void *argument) {
  ZC_CUDA(gpu.use(), "take the GPU");
  if (gpu.isSync) {
    ZC_RETURN_IF_ERROR(settle("work"));
    function(argument);
    return {};
  }
  HostCall &call = calls.try_emplace({function, argument}, HostCall{this, function, argument}).first->second;
  ++pending;
  cudaError_t status = cudaStreamAddCallback(
      stream,
      [](cudaStream_t, cudaError_t status, void *data) {
        auto *call = static_cast<HostCall *>(data);
        int none = cudaSuccess;
        if (status != cudaSuccess) {
          call->stream->gpu.lost.compare_exchange_strong(none, status);
          noteLostGpu();
        }
        call->function(call->argument);
        --call->stream->pending; // the last look at any of this
      },
      &call, 0);
  if (status != cudaSuccess)
    --pending;
  ZC_CUDA(status, "call the host");
  return {};
}

constexpr auto kPause = std::chrono::milliseconds(1);

/// By asking, since a stream that waits for an event of a GPU which is lost meanwhile may wait for ever.
cudaError_t GpuStream::finish() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kAwake = std::chrono::microseconds(200);
  const Clock::time_point began = Clock::now();
  std::optional<Clock::time_point> lostSince;
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status != cudaErrorNotReady)
      return status;
    (void)cudaGetLastError(); // whoever asks for errors next is not told of this one
    const Clock::time_point now = Clock::now();
    if (someGpuIsLost() && now - lostSince.value_or(now) > kLostDevicePatience)
      return status;
    if (someGpuIsLost() && !lostSince)
      lostSince = now;
    if (now - began < kAwake)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kPause);
  }
}

Status GpuStream::drain() {
  cudaError_t status = gpu.use();
  if (status == cudaSuccess)
    status = finish();
  if (status == cudaErrorNotReady) {
    gpu.isLeft = true;
    return makeError(Code::peerLost, 644,
                     "GPU " + std::to_string(gpu.ordinal) + " waits for a GPU of this process that is lost");
  }
  // Where the GPU is lost that is at once, and what calls are given goes after this.
  for (auto waited = kPause; status != cudaSuccess && pending > 0 && waited < kLostDevicePatience; waited += kPause)
    std::this_thread::sleep_for(kPause);
  ZC_CUDA(status, "finish a stream's work");
  return {};
}

/// Other ranks of the process go on as they like: only what this thread asks for meanwhile must be fit to be captured.
Status GpuStream::beginCapture() {
  ZC_CUDA(gpu.use(), "take the GPU");
  const cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  (void)cudaGetLastError(); // as below
  ZC_CUDA(status, "capture a stream");
  return {};
}

Result<std::unique_ptr<Graph>> GpuStream::endCapture() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const char *what = "capture a stream"; // which also says what went wrong in between
  cudaError_t status = cudaStreamEndCapture(stream, &graph);
  if (status == cudaSuccess) {
    what = "make a graph";
    status = cudaGraphInstantiate(&executable, graph, 0);
    (void)cudaGraphDestroy(graph);
  }
  std::unique_ptr<Graph> made;
  if (status == cudaSuccess) {
    made = std::make_unique<GpuGraph>(executable);
    what = "bring a graph to the GPU";
    status = cudaGraphUpload(executable, stream);
  }
  (void)cudaGetLastError(); // no error of what is launched next, in the graph's stead
  ZC_CUDA(status, what);
  return made;
}

Status GpuStream::replay(Graph &graph) {
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaGraphLaunch(static_cast<GpuGraph &>(graph).executable, stream), "launch a graph");
  return {};
}

Result<std::unique_ptr<Lane>> GpuLane::make(GpuStream &stream) {
  std::unique_ptr<GpuLane> lane(new GpuLane(stream));
  for (std::shared_ptr<GpuEvent> &event : lane->events) {
    Result<std::unique_ptr<GpuEvent>> made = GpuEvent::make(stream.gpu);
    ZC_RETURN_IF_ERROR(made.status());
    event = std::move(*made);
  }
  return std::unique_ptr<Lane>(std::move(lane));
}

/// Of memory that no kernel reaches: by this thread, when its turn comes.
Status GpuLane::sumHere(const OrderedSum &sum) {
  const HostMemory &host = HostMemory::instance();
  auto isHosts = [&](const void *operand) { return host.has(operand); };
  if (!isHosts(sum.output) || !std::all_of(sum.inputs, sum.inputs + sum.ranks, isHosts))
    return makeError(Code::internal, 629, "a sum over ranks has operands on the GPU and some that cannot be pinned");
  ZC_CUDA(cudaStreamSynchronize(stream.stream), "finish a stream's work");
  orderedSum(sum);
  return {};
}

Status GpuLane::sum(const OrderedSum &sum) {
  ZC_CUDA(stream.gpu.use(), "take the GPU");
  auto isUnpinned = [&](const void *operand) { return HostMemory::instance().isUnpinned(operand); };
  if (isUnpinned(sum.output) || std::any_of(sum.inputs, sum.inputs + sum.ranks, isUnpinned))
    return sumHere(sum);
  ZC_CUDA(gpuOrderedSum(sum, stream.stream), "sum over " + std::to_string(sum.ranks) + " ranks");
  return stream.settle("sum over ranks");
}

Result<std::shared_ptr<const Event>> GpuLane::mark() {
  std::shared_ptr<GpuEvent> &event = events[++marks % 2];
  ZC_RETURN_IF_ERROR(stream.record(*event));
  return std::shared_ptr<const Event>(event);
}

} // namespace zc::cuda
