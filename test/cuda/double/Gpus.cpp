// GPUs, errors, and what the driver is asked for by name.
#include "test/cuda/double/Double.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace zc::doubled {

const Options &options() {
  static const Options read = [] {
    Options made;
    const char *text = std::getenv("ZC_CUDA_DOUBLE");
    auto ask = [&](const char *name, auto &value) {
      const char *found = text ? std::strstr(text, (std::string(name) + "=").c_str()) : nullptr;
      if (found)
        value = static_cast<std::decay_t<decltype(value)>>(std::atoll(found + std::strlen(name) + 1));
    };
    ask("gpus", made.gpus);
    ask("kinds", made.kinds);
    ask("driver", made.driver);
    ask("memory", made.memory);
    ask("context", made.context);
    ask("others", made.others);
    ask("nvml", made.nvml);
    ask("pins", made.pins);
    ask("waits", made.waits);
    ask("peers", made.peers);
    ask("nograph", made.nograph);
    ask("lost", made.lost);
    ask("lostin", made.lostIn);
    ask("lostas", made.lostAs);
    ask("unpassed", made.unpassed);
    ask("stuck", made.stuck);
    ask("mute", made.mute);
    ask("stray", made.stray);
    ask("capability", made.capability);
    ask("code", made.code);
    ask("image", made.image);
    ask("cudnn", made.cudnn);
    ask("aligned", made.aligned);
    ask("epilogues", made.epilogues);
    return made;
  }();
  return read;
}

static thread_local cudaError_t last = cudaSuccess;
static thread_local int current = 0;
static thread_local bool isInCallback = false;

cudaError_t ended(cudaError_t status) {
  if (status != cudaSuccess)
    last = status;
  return status;
}

Apart::Apart() : before(last) {}
Apart::~Apart() { last = before; }

static void say(const char *call, const std::string &why) {
  std::fprintf(stderr, "%s%s: %s\n", kSays, call, why.c_str());
  if (const char *file = std::getenv("ZC_CUDA_DOUBLE_SAYS")) // of programs whose stderr nobody reads
    if (std::FILE *kept = std::fopen(file, "a")) {
      std::fprintf(kept, "%s: %s\n", call, why.c_str());
      std::fclose(kept);
    }
}

cudaError_t wrong(cudaError_t status, const char *call, const std::string &why) {
  say(call, why);
  return ended(status);
}

void undefined(const char *call, const std::string &why) {
  say(call, why);
  std::abort();
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
}

void SignalsBlocked::unblock() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

static std::optional<uint64_t> latenessOf(const void *worker, bool isLate) {
  return isLate ? std::optional<uint64_t>(reinterpret_cast<uintptr_t>(worker) >> 6) : std::nullopt;
}

Worker::Worker(bool isLate) : SerialThread(latenessOf(this, isLate)) { unblock(); }

Gpu &gpuOf(int ordinal) {
  // Never destroyed: threads may be at work when the program ends.
  static std::vector<std::unique_ptr<Gpu>> &all = *[] {
    auto *made = new std::vector<std::unique_ptr<Gpu>>;
    for (int i = 0; i < options().gpus; ++i) {
      made->push_back(std::make_unique<Gpu>(i));
      made->back()->legacy = std::make_unique<CUstream_st>(*made->back());
    }
    return made;
  }();
  return *all[static_cast<size_t>(ordinal)];
}

Gpu &currentGpu() { return gpuOf(current); }

void enterCallback(bool isIn) { isInCallback = isIn; }

/// Why there is no GPU; a driver serves the CUDA that it knows, and what is older.
static cudaError_t unusable() {
  if (options().driver / 1000 < CUDART_VERSION / 1000)
    return cudaErrorInsufficientDriver;
  return options().gpus == 0 ? cudaErrorNoDevice : cudaSuccess;
}

/// Why a call fails, whatever the GPU is like.
static cudaError_t refusedAnywhere(const char *call) {
  if (isInCallback)
    return wrong(cudaErrorNotPermitted, call, "called by a function of the host in a stream's order");
  return ended(unusable());
}

cudaError_t entered(const char *call) {
  if (cudaError_t status = refusedAnywhere(call); status != cudaSuccess)
    return status;
  return ended(static_cast<cudaError_t>(currentGpu().lost.load()));
}

} // namespace zc::doubled

using namespace zc::doubled;

cudaError_t cudaGetLastError() {
  if (isInCallback)
    return wrong(cudaErrorNotPermitted, "cudaGetLastError", "called by a function of the host in a stream's order");
  return std::exchange(last, cudaSuccess);
}

struct Named {
  cudaError_t status;
  const char *name, *text;
};
static const Named &named(cudaError_t status) {
  static const Named all[] = {
      {cudaSuccess, "cudaSuccess", "no error"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
      {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
      {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
      {cudaErrorHardwareStackError, "cudaErrorHardwareStackError", "hardware stack error"},
      {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
      {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
      {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
      {cudaErrorInvalidKernelImage, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
      {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
       "no kernel image is available for execution on the device"},
      {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
      {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"}};
  for (const Named &one : all)
    if (one.status == status)
      return one;
  static const Named other = {cudaErrorUnknown, "cudaErrorUnknown", "an error that the double of CUDA has no name for"};
  return other;
}
const char *cudaGetErrorName(cudaError_t status) { return named(status).name; }
const char *cudaGetErrorString(cudaError_t status) { return named(status).text; }

cudaError_t cudaDriverGetVersion(int *version) {
  *version = static_cast<int>(options().driver);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = static_cast<int>(options().gpus);
  return ended(unusable());
}

static cudaError_t checkOrdinal(const char *call, int ordinal) {
  return ordinal >= 0 && ordinal < options().gpus ? cudaSuccess : wrong(cudaErrorInvalidDevice, call, "no such GPU");
}

cudaError_t cudaSetDevice(int ordinal) {
  if (cudaError_t status = checkOrdinal("cudaSetDevice", ordinal); status != cudaSuccess)
    return status;
  current = ordinal; // whose context there may be already: that it is lost, its calls say
  if (cudaError_t status = refusedAnywhere("cudaSetDevice"); status != cudaSuccess)
    return status;
  return options().context > options().memory ? ended(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaGetDevice(int *ordinal) {
  ZC_DOUBLE("cudaGetDevice");
  *ordinal = current;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int ordinal) {
  ZC_DOUBLE("cudaGetDeviceProperties");
  *properties = {};
  const int64_t kind = ordinal % options().kinds;
  std::strcpy(properties->name,
              ("a double's GPU" + (kind ? " of kind " + std::to_string(kind) : std::string())).c_str());
  properties->totalGlobalMem = static_cast<size_t>(options().memory);
  properties->major = static_cast<int>(options().capability / 10);
  properties->minor = static_cast<int>(options().capability % 10);
  return checkOrdinal("cudaGetDeviceProperties", ordinal);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int ordinal) {
  ZC_DOUBLE("cudaDeviceGetPCIBusId");
  std::snprintf(id, static_cast<size_t>(bytes), "%08x:00:00.0", static_cast<unsigned>(ordinal));
  return checkOrdinal("cudaDeviceGetPCIBusId", ordinal);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int ordinal) {
  ZC_DOUBLE("cudaDeviceGetAttribute");
  switch (attribute) {
  case cudaDevAttrComputeCapabilityMajor:
    *value = static_cast<int>(options().capability / 10);
    break;
  case cudaDevAttrComputeCapabilityMinor:
    *value = static_cast<int>(options().capability % 10);
    break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = kMostShared;
    break;
  default:
    undefined("cudaDeviceGetAttribute", "the double does not know attribute " + std::to_string(attribute));
  }
  return checkOrdinal("cudaDeviceGetAttribute", ordinal);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *) {
  ZC_DOUBLE("cudaFuncGetAttributes");
  *attributes = {};
  return ended(options().code ? cudaSuccess : cudaErrorNoKernelImageForDevice);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int ordinal, int peer) {
  ZC_DOUBLE("cudaDeviceCanAccessPeer");
  *can = ordinal != peer && options().peers;
  cudaError_t status = checkOrdinal("cudaDeviceCanAccessPeer", ordinal);
  return status == cudaSuccess ? checkOrdinal("cudaDeviceCanAccessPeer", peer) : status;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *result) {
  ZC_DOUBLE("cudaGetDriverEntryPointByVersion");
  const std::pair<const char *, void *> all[] = {
      {"cuStreamWaitValue64", options().waits ? reinterpret_cast<void *>(cuStreamWaitValue64) : nullptr},
      {"cuModuleLoadData", reinterpret_cast<void *>(cuModuleLoadData)},
      {"cuModuleGetFunction", reinterpret_cast<void *>(cuModuleGetFunction)},
      {"cuLaunchKernel", reinterpret_cast<void *>(cuLaunchKernel)}};
  *function = nullptr;
  for (const auto &[known, address] : all)
    if (std::strcmp(known, name) == 0)
      *function = address;
  *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
