// NVML's double: what it says of a GPU's memory, which needs no context.
#include "test/cuda/double/Double.h"

#include <cstdlib>

using namespace zc::doubled;

extern "C" {

int nvmlInit_v2() { return options().nvml ? 0 : 12 /* NVML_ERROR_LIBRARY_NOT_FOUND */; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
  *device = &gpuOf(static_cast<int>(std::strtol(id, nullptr, 16)));
  return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *totalFreeUsed) {
  const auto total = static_cast<unsigned long long>(options().memory);
  const auto used = static_cast<unsigned long long>(static_cast<Gpu *>(device)->allocated.load());
  totalFreeUsed[0] = total;
  totalFreeUsed[1] = total - used;
  totalFreeUsed[2] = used;
  return 0;
}
}
