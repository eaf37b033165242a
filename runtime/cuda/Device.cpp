#include "runtime/cuda/Device.h"

#include "runtime/cuda/CudnnGraph.h"
#include "runtime/cuda/CudnnKernels.h"
#include "runtime/cuda/FusedKernels.h"
#include "runtime/cuda/HostMemory.h"
#include "runtime/cuda/Matmul.h"
#include "runtime/cuda/Nccl.h"
#include "runtime/cuda/Nvml.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

namespace zc::cuda {

namespace {

const GpuKernelRegistry &registry() {
  static const GpuKernelRegistry all = [] {
    GpuKernelRegistry made;
    addGpuFamilies(made, prepareProgramSums);
    addMatmul(made);
    addGpuHeads(made);
    addCudnnKernels(made);
    addFusedKernels(made);
    return made;
  }();
  return all;
}

/// A kernel of the registry behind the seam.
class GpuLaunch : public DeviceKernel {
public:
  GpuLaunch(std::unique_ptr<GpuKernel> kernel, FirstError *error, uint32_t number)
      : kernel(std::move(kernel)), error(error), number(static_cast<int32_t>(number)) {}
  Status enqueue(void *const *operands, const EnqueuedContext &context, Stream &stream) override {
    auto &own = static_cast<GpuStream &>(stream);
    ZC_CUDA(own.gpu.use(), "take the GPU");
    Status status = kernel->enqueue(operands, Frame{context.device, error, number}, own.stream);
    return status.ok() ? own.settle("run the step") : lostOr(status, own);
  }

private:
  /// Of a GPU that is lost, libraries say no more than that they failed, and neither they nor the driver leave an error
  /// in this runtime: its stream has it. A stream that is captured may not be asked; its steps are tried once more.
  static Status lostOr(const Status &status, const GpuStream &own) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t found = cudaStreamIsCapturing(own.stream, &capture);
    if (found == cudaSuccess && capture == cudaStreamCaptureStatusNone)
      found = cudaStreamQuery(own.stream);
    (void)cudaGetLastError(); // that it is not ready yet
    for (cudaError_t each : {static_cast<cudaError_t>(own.gpu.lost.load()), found})
      if (isLost(each))
        return errorOf(each, "launch a kernel");
    return status;
  }

  std::unique_ptr<GpuKernel> kernel;
  FirstError *error;
  int32_t number;
};

constexpr uint64_t kMebibyte = uint64_t(1) << 20;
std::string mebibytes(uint64_t bytes) { return std::to_string(bytes / kMebibyte) + " MiB"; }
std::string freeOf(uint64_t free, uint64_t total) { return mebibytes(free) + " free of " + mebibytes(total); }

/// Lets GPU `ordinal` read the memory of the others that this process uses, the first `count`: sums over ranks do.
/// Errors: it cannot.
Status reachPeers(int ordinal, int count) {
  for (int peer = 0; peer < count; ++peer) {
    if (peer == ordinal)
      continue;
    int can = 0;
    ZC_CUDA(cudaDeviceCanAccessPeer(&can, ordinal, peer),
            "ask whether GPU " + std::to_string(ordinal) + " reaches GPU " + std::to_string(peer));
    if (!can)
      return makeError(Code::unsupported, 637,
                       "GPU " + std::to_string(ordinal) + " cannot read the memory of GPU " + std::to_string(peer) +
                           ", which ranks of one process do",
                       "--device", "start a process per rank (mpirun), or let CUDA_VISIBLE_DEVICES name one GPU");
    cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
      (void)cudaGetLastError(); // another rank of this GPU was faster
    else
      ZC_CUDA(status, "reach GPU " + std::to_string(peer));
  }
  return {};
}

} // namespace

Result<std::unique_ptr<Device>> GpuDevice::open(const CudaOptions &options) {
  int count = 0;
  ZC_CUDA(cudaGetDeviceCount(&count), "find a GPU");
  if (count == 0)
    return errorOf(cudaErrorNoDevice, "find a GPU");
  std::unique_ptr<GpuDevice> device(new GpuDevice(options, count));
  ZC_RETURN_IF_ERROR(device->start());
  return std::unique_ptr<Device>(std::move(device));
}

GpuDevice::GpuDevice(const CudaOptions &options, int count) : options(options), count(count) {
  gpu.ordinal = options.localRank % count;
  gpu.isSync = options.isSync;
}

Error GpuDevice::tooLittleMemory(uint64_t needed, const std::string &room) const {
  Error error = makeError(Code::budget, 634,
                          "rank " + std::to_string(options.rank) + " needs " + mebibytes(needed + kMebibyte - 1) +
                              " of device memory, GPU " + std::to_string(gpu.ordinal) + " has " + room);
  error.help = sharesGpu() ? "run fewer ranks per GPU, or compile with a smaller --device-mem"
                           : "see nvidia-smi for who has it, or compile with a smaller --device-mem";
  return error;
}

Status GpuDevice::takeGpu() {
  cudaError_t status = gpu.use();
  if (status == cudaSuccess)
    status = cudaFree(nullptr);
  if (status == cudaErrorDevicesUnavailable) // nothing is lost that was never had
    return makeError(Code::unsupported, 663,
                     "GPU " + std::to_string(gpu.ordinal) +
                         " is another process's, or closed to all: " + cudaGetErrorString(status),
                     "--device", "see nvidia-smi -q -d COMPUTE, and take another with CUDA_VISIBLE_DEVICES");
  if (status != cudaErrorMemoryAllocation) {
    ZC_CUDA(status, "take GPU " + std::to_string(gpu.ordinal));
    return {};
  }
  (void)cudaGetLastError();
  const std::optional<GpuMemory> memory = memoryWithoutContext(gpu.ordinal);
  return tooLittleMemory(options.planned, memory ? freeOf(memory->free, memory->total) +
                                                       ": too little for CUDA's context, which comes first"
                                                 : "too little free for CUDA's context, which comes first");
}

Status GpuDevice::start() {
  ZC_RETURN_IF_ERROR(takeGpu());
  cudaDeviceProp properties;
  ZC_CUDA(cudaGetDeviceProperties(&properties, gpu.ordinal), "ask for the GPU's name");
  title = properties.name;
  // Ours copy beside what they compute and multiply bf16 on tensor cores: from 8.0 on.
  constexpr int kLeastMajor = 8;
  if (properties.major < kLeastMajor)
    return makeError(Code::unsupported, 628,
                     "\"" + title + "\" has compute capability " + std::to_string(properties.major) + "." +
                         std::to_string(properties.minor) + ", " + std::to_string(kLeastMajor) + ".0 is needed",
                     "--device", "take another GPU (CUDA_VISIBLE_DEVICES), or another device: cpu, fake, sync");
  ZC_CUDA(gpuHasCode(), "run on \"" + title + "\"");
  if (options.shareProcess)
    ZC_RETURN_IF_ERROR(reachPeers(gpu.ordinal, std::min(count, options.localRanks)));
  Result<void *> word = allocatePinned(sizeof(FirstError));
  ZC_RETURN_IF_ERROR(word.status());
  error = static_cast<FirstError *>(*word);
  if (sharesGpu())
    told.push_back(std::to_string(options.localRanks) + " ranks share " +
                   (count == 1 ? std::string("one GPU") : std::to_string(count) + " GPUs"));
  return {};
}

GpuDevice::~GpuDevice() {
  for (void *memory : hosts)
    HostMemory::instance().remove(memory);
  if (gpu.isLeft || gpu.use() != cudaSuccess) // CUDA frees nothing while a stream is at work
    return;
  if (gpu.single)
    (void)cudaStreamDestroy(gpu.single);
  for (void *memory : allocated)
    (void)cudaFree(memory);
  for (void *memory : pinned)
    (void)cudaFreeHost(memory);
  for (void *memory : registered)
    (void)cudaHostUnregister(memory);
}

Result<void *> GpuDevice::allocate(uint64_t bytes) {
  void *memory = nullptr;
  if (bytes == 0)
    return memory;
  ZC_CUDA(gpu.use(), "take the GPU");
  size_t free = 0, total = 0;
  ZC_CUDA(cudaMemGetInfo(&free, &total), "ask for free memory");
  cudaError_t status = bytes > free ? cudaErrorMemoryAllocation : cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    ZC_CUDA(cudaMemGetInfo(&free, &total), "ask for free memory"); // of which others may have taken some meanwhile
    return tooLittleMemory(bytes, freeOf(free, total));
  }
  ZC_CUDA(status, "allocate " + mebibytes(bytes));
  allocated.push_back(memory);
  ZC_RETURN_IF_ERROR(clear(memory, bytes));
  return memory;
}

Status GpuDevice::checkRoom() const {
  // Of a library's handle and of the code of the kernels that are launched, tens of MiB: less than this no run has.
  constexpr uint64_t kRoom = 64 * kMebibyte;
  size_t free = 0, total = 0;
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaMemGetInfo(&free, &total), "ask for free memory");
  if (free >= kRoom)
    return {};
  return tooLittleMemory(options.planned + kRoom,
                         freeOf(free + options.planned, total) + ": beside the plan " + mebibytes(free) +
                             " would be left for CUDA's libraries, which take " + mebibytes(kRoom));
}

Status GpuDevice::pin(void *memory, uint64_t bytes) {
  if (bytes == 0)
    return {};
  ZC_CUDA(gpu.use(), "take the GPU");
  // Kernels read it too: sums over ranks of what lies on the host.
  cudaError_t status = cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  HostMemory::instance().add(memory, bytes, status == cudaSuccess);
  hosts.push_back(memory);
  if (status == cudaSuccess) {
    registered.push_back(memory);
    return {};
  }
  (void)cudaGetLastError();
  if (!isUnpinned)
    told.push_back(mebibytes(bytes) + " of host memory cannot be pinned (" + cudaGetErrorString(status) +
                   "): transfers are slower and do not go on beside compute; see ulimit -l");
  isUnpinned = true;
  return {};
}

Result<void *> GpuDevice::allocatePinned(uint64_t bytes) {
  void *memory = nullptr;
  if (bytes == 0)
    return memory;
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
          "allocate " + std::to_string(bytes) + " bytes of pinned memory");
  pinned.push_back(memory);
  std::memset(memory, 0, bytes);
  return memory;
}

Status GpuDevice::read(void *to, const void *from, uint64_t bytes) {
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "read " + std::to_string(bytes) + " bytes");
  return {};
}

Status GpuDevice::write(void *to, const void *from, uint64_t bytes) {
  ZC_RETURN_IF_ERROR(read(to, from, bytes));
  ZC_CUDA(cudaStreamSynchronize(nullptr), "write"); // of pageable memory a copy may still be on its way
  return {};
}

Status GpuDevice::clear(void *bytes, uint64_t count) {
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaMemset(bytes, 0, count), "write zeroes");
  ZC_CUDA(cudaStreamSynchronize(nullptr), "write zeroes"); // not of other ranks, which may be at work
  return {};
}

Result<std::unique_ptr<Event>> GpuDevice::makeEvent() {
  Result<std::unique_ptr<GpuEvent>> event = GpuEvent::make(gpu);
  ZC_RETURN_IF_ERROR(event.status());
  return std::unique_ptr<Event>(std::move(*event));
}

Result<std::unique_ptr<Stamp>> GpuDevice::makeStamp() {
  ZC_CUDA(gpu.use(), "take the GPU");
  cudaEvent_t event;
  ZC_CUDA(cudaEventCreate(&event), "make an event");
  return std::unique_ptr<Stamp>(std::make_unique<GpuStamp>(event));
}

Result<int64_t> GpuDevice::nanosecondsBetween(const Stamp &from, const Stamp &to) const {
  float milliseconds = 0;
  ZC_CUDA(gpu.use(), "take the GPU");
  ZC_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<const GpuStamp &>(from).event,
                               static_cast<const GpuStamp &>(to).event),
          "read a time");
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

void GpuDevice::foresee(const std::vector<KernelSpec> &specs, int threads) {
  if (gpu.use() == cudaSuccess)
    compileFused(specs, threads);
}

Result<std::unique_ptr<DeviceKernel>> GpuDevice::prepare(const KernelSpec &spec, uint32_t number) {
  const GpuKernelFactory *factory = registry().find(spec.name);
  if (!factory)
    return makeError(Code::unsupported, 635, "kernel '" + spec.name + "' has no implementation for GPUs yet", {},
                     "take another device: cpu, fake, sync");
  ZC_RETURN_IF_ERROR(checkSpec(spec, Target::cuda, traitsOf(spec.name)));
  ZC_CUDA(gpu.use(), "take the GPU");
  Result<std::unique_ptr<GpuKernel>> kernel = (*factory)(spec);
  ZC_RETURN_IF_ERROR(kernel.status());
  if (std::string note = (*kernel)->note(); !note.empty() && std::find(told.begin(), told.end(), note) == told.end())
    told.push_back(std::move(note));
  KernelSpec &kept = specs[number] = spec;
  kept.attributes.erase("data"); // of constants, large
  return std::unique_ptr<DeviceKernel>(std::make_unique<GpuLaunch>(std::move(*kernel), error, number));
}

Result<std::string> GpuDevice::description() const {
  ZC_CUDA(gpu.use(), "take the GPU");
  return describeForCudnn();
}

Result<std::unique_ptr<Lane>> GpuDevice::makeLane(Stream &stream) {
  return GpuLane::make(static_cast<GpuStream &>(stream));
}

Result<std::unique_ptr<DeviceLinks>> GpuDevice::makeLinks() { return makeNcclLinks(gpu); }

std::optional<Device::Fault> GpuDevice::fault() const {
  if (int lost = gpu.lost.load(); lost != cudaSuccess) {
    callsGpu(gpu.ordinal);
    return Fault{{}, errorOf(static_cast<cudaError_t>(lost), "run a step")};
  }
  if (static_cast<const volatile int32_t &>(error->set) != FirstError::kTold)
    return std::nullopt;
  std::atomic_thread_fence(std::memory_order_acquire);
  const FirstError found = *error;
  auto number = static_cast<uint32_t>(found.kernel);
  auto spec = specs.find(number);
  return Fault{number, spec == specs.end() ? makeError(Code::internal, 638, "a kernel found a wrong index")
                                           : found.wrong.told(spec->second)};
}

} // namespace zc::cuda
