#include "runtime/cuda/Nvml.h"

#include "runtime/cuda/Library.h"

#include <cuda_runtime_api.h>

namespace zc::cuda {

namespace {

// The driver brings this library, its header comes with a toolkit's extras: declared as NVML's API reference has it.
using NvmlDevice = void *;
struct NvmlMemory {
  unsigned long long total, free, used;
};

struct Nvml {
  Library library{{"libnvidia-ml.so.1"}, "NVIDIA's driver"};
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*deviceByPciBusId)(const char *id, NvmlDevice *device) = nullptr;
  int (*memoryInfo)(NvmlDevice device, NvmlMemory *memory) = nullptr;

  Nvml() {
    library.take(init, "nvmlInit_v2");
    library.take(shutdown, "nvmlShutdown");
    library.take(deviceByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2");
    library.take(memoryInfo, "nvmlDeviceGetMemoryInfo");
  }
};

} // namespace

std::optional<GpuMemory> memoryWithoutContext(int ordinal) {
  // NVML counts the machine's GPUs, CUDA those of CUDA_VISIBLE_DEVICES: the bus knows which one it is.
  char id[32] = {};
  if (cudaDeviceGetPCIBusId(id, sizeof id, ordinal) != cudaSuccess) {
    (void)cudaGetLastError();
    return std::nullopt;
  }
  const Nvml nvml;
  if (!nvml.library.status().ok() || nvml.init() != 0)
    return std::nullopt;
  NvmlDevice device = nullptr;
  NvmlMemory memory{};
  const bool isKnown = nvml.deviceByPciBusId(id, &device) == 0 && nvml.memoryInfo(device, &memory) == 0;
  (void)nvml.shutdown();
  return isKnown ? std::optional(GpuMemory{memory.free, memory.total}) : std::nullopt;
}

} // namespace zc::cuda
