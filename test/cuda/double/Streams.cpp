// Streams, events, graphs.
#include "test/cuda/double/Double.h"

using namespace zc::doubled;

/// Where it was recorded last, and how many records are behind the streams.
struct CUevent_st {
  struct State {
    std::mutex mutex;
    std::condition_variable passed;
    uint64_t recorded = 0, done = 0;
    std::chrono::steady_clock::time_point time;
  };
  Gpu &gpu;
  const bool isTimed;
  std::shared_ptr<State> state = std::make_shared<State>(); ///< of those who still wait, too
};

using Work = std::vector<std::function<void()>>;
struct CUgraph_st {
  Gpu &gpu;
  std::shared_ptr<const Work> work;
};
struct CUgraphExec_st {
  Gpu &gpu;
  std::shared_ptr<const Work> work;
};

namespace {

/// What there is of a kind; a handle that is not among it is not looked at.
template <typename T> class Handles {
public:
  template <typename... Arguments> T *make(Arguments &&...arguments) {
    auto made = std::unique_ptr<T>(new T{std::forward<Arguments>(arguments)...});
    std::lock_guard<std::mutex> lock(mutex);
    T *handle = made.get();
    all[handle] = std::move(made);
    return handle;
  }
  bool has(T *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    return all.count(handle) != 0;
  }
  std::unique_ptr<T> take(T *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = all.find(handle);
    if (found == all.end())
      return nullptr;
    std::unique_ptr<T> taken = std::move(found->second);
    all.erase(found);
    return taken;
  }

private:
  std::mutex mutex;
  std::map<T *, std::unique_ptr<T>> all;
};
template <typename T> Handles<T> &handles() {
  static Handles<T> &all = *new Handles<T>; // as long as threads may be at work
  return all;
}

/// The one that this thread captures, if any; and how many are captured that bear with nobody.
thread_local CUstream_st *capturing = nullptr;
std::atomic<int> globalCaptures{0};

template <typename T> cudaError_t destroyed(const char *call, T *handle) {
  if (!handles<T>().take(handle))
    return wrong(cudaErrorInvalidResourceHandle, call, "of what is not, or not any more");
  return cudaSuccess;
}

} // namespace

namespace zc::doubled {

cudaError_t refusedByCapture(const char *call) {
  if (!capturing && globalCaptures == 0)
    return cudaSuccess;
  if (capturing)
    capturing->capture->isSpoiled = true;
  return wrong(cudaErrorStreamCaptureUnsupported, call, "while a stream is captured");
}

CUstream_st *streamOf(const char *call, cudaStream_t stream, bool isLaunched, cudaError_t &status) {
  status = cudaSuccess;
  if (!stream || !handles<CUstream_st>().has(stream))
    status = wrong(cudaErrorInvalidResourceHandle, call, "on a stream that is not, or not any more");
  else if (isLaunched && &stream->gpu != &currentGpu())
    status = wrong(cudaErrorInvalidResourceHandle, call, "on a stream of another GPU than the current one");
  return status == cudaSuccess ? stream : nullptr;
}

} // namespace zc::doubled

cudaError_t CUstream_st::add(const char *call, std::function<void()> work, bool isDoneAnyway) {
  auto unlessLost = [this, isDoneAnyway, work = std::move(work)] {
    if (isDoneAnyway || gpu.lost == cudaSuccess)
      work();
  };
  if (!capture) {
    worker.add(std::move(unlessLost));
    return cudaSuccess;
  }
  if (capture->thread != std::this_thread::get_id())
    return wrong(cudaErrorStreamCaptureWrongThread, call, "on a stream that another thread captures");
  capture->work.push_back(std::move(unlessLost));
  return cudaSuccess;
}

cudaError_t CUstream_st::addTouching(const char *call, std::function<void()> work) {
  return add(call, [this, work = std::move(work)] {
    std::shared_lock<std::shared_mutex> lock(gpu.atWork);
    if (gpu.lost == cudaSuccess)
      work();
  });
}

/// What a graph of this double cannot have.
static cudaError_t refuseCaptured(const char *call, CUstream_st &stream) {
  if (!stream.capture)
    return cudaSuccess;
  stream.capture->isSpoiled = true;
  return wrong(cudaErrorStreamCaptureUnsupported, call, "on a stream that is captured");
}

#define ZC_STREAM(call, handle, isLaunched)                                                                            \
  ZC_DOUBLE(call);                                                                                                     \
  cudaError_t zcFound;                                                                                                 \
  CUstream_st *found = streamOf(call, handle, isLaunched, zcFound);                                                    \
  if (!found)                                                                                                          \
  return zcFound

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  ZC_DOUBLE_UNCAPTURED("cudaStreamCreateWithFlags");
  if (flags != cudaStreamNonBlocking)
    undefined("cudaStreamCreateWithFlags", "the double has no streams that wait for the legacy one");
  *stream = handles<CUstream_st>().make(currentGpu());
  return ended(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  ZC_STREAM("cudaStreamDestroy", stream, false);
  if (!found->worker.isIdle()) // allowed, but what calls of the host are given goes with who gave it
    undefined("cudaStreamDestroy", "of a stream that is at work");
  handles<CUstream_st>().take(stream);
  return ended(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ZC_DOUBLE("cudaStreamSynchronize");
  cudaError_t status = cudaSuccess;
  CUstream_st *found = stream ? streamOf("cudaStreamSynchronize", stream, false, status) : currentGpu().legacy.get();
  if (found)
    status = refuseCaptured("cudaStreamSynchronize", *found);
  if (status != cudaSuccess)
    return status;
  found->worker.drain();
  return ended(static_cast<cudaError_t>(found->gpu.lost.load()));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  ZC_STREAM("cudaStreamQuery", stream, false);
  if (cudaError_t status = refuseCaptured("cudaStreamQuery", *found); status != cudaSuccess)
    return status;
  if (found->gpu.lost != cudaSuccess)
    return ended(static_cast<cudaError_t>(found->gpu.lost.load()));
  return ended(found->worker.isIdle() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  ZC_STREAM("cudaStreamIsCapturing", stream, false);
  *status = !found->capture             ? cudaStreamCaptureStatusNone
            : found->capture->isSpoiled ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
  return ended(cudaSuccess);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *argument, unsigned flags) {
  ZC_STREAM("cudaStreamAddCallback", stream, false);
  if (flags != 0)
    return wrong(cudaErrorInvalidValue, "cudaStreamAddCallback", "flags must be 0");
  if (cudaError_t status = refuseCaptured("cudaStreamAddCallback", *found); status != cudaSuccess)
    return status;
  auto call = [=, gpu = &found->gpu] {
    std::mutex mutex;
    std::condition_variable ended;
    bool isOver = false;
    gpu->callbacks.add([&] {
      enterCallback(true);
      callback(stream, static_cast<cudaError_t>(gpu->lost.load()), argument);
      enterCallback(false);
      std::lock_guard<std::mutex> lock(mutex);
      isOver = true;
      ended.notify_all();
    });
    std::unique_lock<std::mutex> lock(mutex);
    ended.wait(lock, [&] { return isOver; });
  };
  return ended(found->add("cudaStreamAddCallback", call, /*isDoneAnyway=*/true));
}

// Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  ZC_DOUBLE("cudaEventCreateWithFlags");
  *event = handles<CUevent_st>().make(currentGpu(), (flags & cudaEventDisableTiming) == 0);
  return ended(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  ZC_DOUBLE("cudaEventDestroy");
  return destroyed("cudaEventDestroy", event);
}

static cudaError_t checkEvent(const char *call, cudaEvent_t event) {
  return event && handles<CUevent_st>().has(event)
             ? cudaSuccess
             : wrong(cudaErrorInvalidResourceHandle, call, "of an event that is not, or not any more");
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  ZC_STREAM("cudaEventRecord", stream, false);
  cudaError_t status = checkEvent("cudaEventRecord", event);
  if (status == cudaSuccess)
    status = refuseCaptured("cudaEventRecord", *found);
  if (status != cudaSuccess)
    return status;
  if (&event->gpu != &found->gpu)
    return wrong(cudaErrorInvalidResourceHandle, "cudaEventRecord", "of an event of another GPU than the stream's");
  uint64_t mine;
  {
    std::lock_guard<std::mutex> lock(event->state->mutex);
    mine = ++event->state->recorded;
  }
  return ended(found->add(
      "cudaEventRecord",
      [state = event->state, mine] {
        std::lock_guard<std::mutex> lock(state->mutex);
        state->done = mine;
        state->time = std::chrono::steady_clock::now();
        state->passed.notify_all();
      },
      /*isDoneAnyway=*/!options().unpassed));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  ZC_STREAM("cudaStreamWaitEvent", stream, false);
  cudaError_t status = checkEvent("cudaStreamWaitEvent", event);
  if (status == cudaSuccess)
    status = refuseCaptured("cudaStreamWaitEvent", *found);
  if (status != cudaSuccess)
    return status;
  uint64_t last;
  {
    std::lock_guard<std::mutex> lock(event->state->mutex);
    last = event->state->recorded;
  }
  return ended(found->add("cudaStreamWaitEvent", [state = event->state, last, gpu = &found->gpu] {
    std::unique_lock<std::mutex> lock(state->mutex);
    while (state->done < last && gpu->lost == cudaSuccess) // which nothing signals
      state->passed.wait_for(lock, std::chrono::milliseconds(10));
  }));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const char *call = "cudaEventElapsedTime";
  ZC_DOUBLE_UNCAPTURED(call);
  for (cudaEvent_t event : {from, to})
    if (cudaError_t status = checkEvent(call, event); status != cudaSuccess)
      return status;
  if (!from->isTimed || !to->isTimed || &from->gpu != &to->gpu || &from->gpu != &currentGpu())
    return wrong(cudaErrorInvalidResourceHandle, call, "of events that keep no time, or of other GPUs");
  std::chrono::steady_clock::time_point times[2];
  for (cudaEvent_t event : {from, to}) {
    std::lock_guard<std::mutex> lock(event->state->mutex);
    if (event->state->recorded == 0 || event->state->done != event->state->recorded)
      return wrong(cudaErrorNotReady, call, "of an event that is not passed");
    times[event == to] = event->state->time;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
  return ended(cudaSuccess);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  const char *call = "cuStreamWaitValue64";
  const Apart apart;
  auto refused = [](cudaError_t status) { return static_cast<CUresult>(status); }; // the numbers are the same
  if (cudaError_t status = entered(call); status != cudaSuccess)
    return refused(status);
  cudaError_t status;
  CUstream_st *found = streamOf(call, stream, true, status);
  if (!found)
    return refused(status);
  if (status = refuseCaptured(call, *found); status != cudaSuccess)
    return refused(status);
  auto *word = reinterpret_cast<uint64_t *>(address);
  if (address % 8 != 0 || flags != CU_STREAM_WAIT_VALUE_GEQ || rangeOf(call, word, 8).place == Place::pageable)
    return refused(wrong(cudaErrorInvalidValue, call, "for a word that is not aligned, or that no GPU reaches"));
  found->add(call, [=, gpu = &found->gpu] {
    while (gpu->lost == cudaSuccess && static_cast<int64_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return CUDA_SUCCESS;
}

// Graphs.

static bool isFailed(GraphStep step) { return options().nograph == int64_t(step); }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  ZC_STREAM("cudaStreamBeginCapture", stream, false);
  if (isFailed(GraphStep::begin))
    return ended(cudaErrorMemoryAllocation);
  if (found->capture || capturing)
    return wrong(cudaErrorIllegalState, "cudaStreamBeginCapture", "of a stream while one is captured");
  found->capture.emplace();
  found->capture->thread = std::this_thread::get_id();
  found->capture->isGlobal = mode == cudaStreamCaptureModeGlobal;
  globalCaptures += found->capture->isGlobal;
  capturing = found;
  return ended(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  ZC_STREAM("cudaStreamEndCapture", stream, false);
  *graph = nullptr;
  if (capturing != found)
    return wrong(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture",
                 "of a stream that this thread does not capture");
  capturing = nullptr;
  Capture captured = std::move(*found->capture);
  found->capture.reset();
  globalCaptures -= captured.isGlobal;
  if (captured.isSpoiled)
    return ended(cudaErrorStreamCaptureInvalidated);
  if (isFailed(GraphStep::end))
    return ended(cudaErrorMemoryAllocation);
  *graph = handles<CUgraph_st>().make(found->gpu, std::make_shared<const Work>(std::move(captured.work)));
  return ended(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
  ZC_DOUBLE_UNCAPTURED("cudaGraphInstantiate");
  if (isFailed(GraphStep::instantiate))
    return ended(cudaErrorMemoryAllocation);
  if (!graph || !handles<CUgraph_st>().has(graph))
    return wrong(cudaErrorInvalidValue, "cudaGraphInstantiate", "of no graph");
  *executable = handles<CUgraphExec_st>().make(graph->gpu, graph->work);
  return ended(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroyed("cudaGraphDestroy", graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return destroyed("cudaGraphExecDestroy", executable); }

static cudaError_t checkGraph(const char *call, cudaGraphExec_t executable, CUstream_st &stream) {
  if (!executable || !handles<CUgraphExec_st>().has(executable))
    return wrong(cudaErrorInvalidValue, call, "of a graph that is not, or not any more");
  if (&executable->gpu != &stream.gpu)
    return wrong(cudaErrorInvalidValue, call, "of a graph of another GPU");
  return refuseCaptured(call, stream);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  ZC_STREAM("cudaGraphUpload", stream, false);
  if (isFailed(GraphStep::upload))
    return ended(cudaErrorMemoryAllocation);
  return checkGraph("cudaGraphUpload", executable, *found);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ZC_STREAM("cudaGraphLaunch", stream, false);
  if (cudaError_t status = checkGraph("cudaGraphLaunch", executable, *found); status != cudaSuccess)
    return status;
  return ended(found->add("cudaGraphLaunch", [work = executable->work] {
    for (const std::function<void()> &each : *work)
      each();
  }));
}
