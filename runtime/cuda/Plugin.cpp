#include "runtime/cuda/Device.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Library.h"
#include "runtime/cuda/Nvml.h"

#include <cstdio>
#include <cstdlib>

namespace zc::cuda {

static Device *open(const CudaOptions &options, Error &error) {
  Result<std::unique_ptr<Device>> device = GpuDevice::open(options);
  if (device)
    return device->release();
  error = device.error();
  return nullptr;
}

static bool check(Error &error) {
  // Before CUDA starts: ranks that share a GPU have more streams than the eight that it serves apart by default.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*replace=*/0);
  // And before NCCL does: since 2.22 it connects for an algorithm when that is first chosen, which for large messages
  // is another one than for those by which ranks meet, and so would allocate in the middle of a step.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", /*replace=*/0);
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0)
    return true;
  error = errorOf(status == cudaSuccess ? cudaErrorNoDevice : status, "find a GPU");
  return false;
}

static std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

static std::string gigabytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

/// "NVIDIA H200, 142.1 GB free of 143.8 GB, compute capability 9.0".
static std::string describeGpu(int ordinal) {
  cudaDeviceProp properties;
  if (cudaError_t status = cudaGetDeviceProperties(&properties, ordinal); status != cudaSuccess)
    return errorOf(status, "ask for the GPU").message;
  size_t free = 0, total = properties.totalGlobalMem;
  bool isAsked = cudaSetDevice(ordinal) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess;
  if (std::optional<GpuMemory> told = isAsked ? std::nullopt : memoryWithoutContext(ordinal)) {
    free = told->free, total = told->total;
    isAsked = true;
  }
  std::string memory = (isAsked ? gigabytes(free) + " free of " : std::string()) + gigabytes(total);
  return std::string(properties.name) + ", " + memory + ", compute capability " + std::to_string(properties.major) +
         "." + std::to_string(properties.minor);
}

/// Which GPUs read each other's memory.
static std::string describeLinks(int count) {
  std::string apart;
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      int can = 0;
      if (cudaDeviceCanAccessPeer(&can, a, b) != cudaSuccess || !can)
        apart += (apart.empty() ? "" : ", ") + std::to_string(a) + " and " + std::to_string(b);
    }
  return apart.empty() ? "all reach each other" : "do not reach each other: " + apart;
}

static void describe(std::vector<std::pair<std::string, std::string>> &lines) {
  int driver = 0, count = 0;
  (void)cudaDriverGetVersion(&driver);
  Error error;
  bool works = check(error);
  lines.emplace_back("cuda",
                     "built with CUDA " + version(CUDART_VERSION) +
                         (works ? ", the driver knows " + version(driver) : "; " + error.message + ": " + error.help));
  if (works && cudaGetDeviceCount(&count) == cudaSuccess) {
    for (int i = 0; i < count; ++i)
      lines.emplace_back("GPU " + std::to_string(i), describeGpu(i));
    if (count > 1)
      lines.emplace_back("GPUs", describeLinks(count));
    if (!Driver::instance().waitValue)
      lines.emplace_back("cuda", "streams cannot wait for words of the host: the host waits in their stead");
  }
  for (auto &line : describeLibraries())
    lines.push_back(std::move(line));
}

} // namespace zc::cuda

extern "C" {
extern const zc::CudaPlugin zcCuda;
}
const zc::CudaPlugin zcCuda = {zc::cuda::open, zc::cuda::check, zc::cuda::describe};
