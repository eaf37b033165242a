// Kernels: their turn on a stream, a sort, and modules of what the double of NVRTC compiles.
#include "kernels/cuda/GpuRegistry.h"
#include "kernels/cuda/HostQueue.h"
#include "test/cuda/double/Double.h"
#include "test/cuda/double/Module.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace zc::doubled;

namespace zc::doubled {

static void lose(Gpu &gpu) {
  std::unique_lock<std::shared_mutex> lock(gpu.atWork);
  gpu.lost = options().lostAs;
}

bool isLostIn(Gpu &gpu) {
  static std::atomic<int64_t> launches{0};
  const bool isIt = gpu.ordinal == 0 && ++launches == options().lostIn;
  if (isIt)
    lose(gpu);
  return isIt;
}

/// At its turn a kernel may find the GPU lost, or work for ever.
static cudaError_t launched(const char *call, cudaStream_t stream, std::function<void()> kernel) {
  cudaError_t status;
  CUstream_st *found = streamOf(call, stream, true, status);
  if (!found)
    return status;
  auto counted = [gpu = &found->gpu] {
    int64_t number = ++gpu->kernels;
    if (gpu->ordinal != 0)
      return;
    while (number == options().stuck)
      ::pause();
    if (number == options().lost)
      lose(*gpu);
  };
  if (isLostIn(found->gpu))
    return ended(static_cast<cudaError_t>(options().lostAs));
  if (options().lost > 0 || options().stuck > 0)
    (void)found->add(call, counted);
  return ended(found->addTouching(call, std::move(kernel)));
}

/// From compute capability 7.0 on, with a driver of CUDA 12.1 or later.
constexpr size_t kMostArguments = 32764;

cudaError_t launchOnHost(const char *call, unsigned blocks, unsigned threads, size_t shared, const void *arguments,
                         size_t bytes, std::function<void()> kernel, cudaStream_t stream) {
  ZC_DOUBLE(call);
  if (!options().code)
    return wrong(cudaErrorNoKernelImageForDevice, call, "of a build that has no code for this GPU");
  if (shared % 16 != 0 || shared + zc::cuda::kSharedByReductions > kMostShared)
    return wrong(cudaErrorInvalidValue, call, "with " + std::to_string(shared) + " bytes that threads share");
  if (blocks == 0 || blocks > 0x7fffffffu || threads == 0 || threads > 1024 || bytes > kMostArguments)
    return wrong(cudaErrorInvalidConfiguration, call,
                 "on " + std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads is told " +
                     std::to_string(bytes) + " bytes");
  char *told = checkArguments(currentGpu(), call, arguments, bytes);
  static std::atomic<int64_t> number{0};
  const bool strays = ++number == options().stray && told;
  const cudaError_t status = launched(call, stream, [kernel = std::move(kernel), told, strays] {
    kernel();
    if (strays)
      told[-1] ^= 1;
  });
  // Who launches asks for the last error, which may be one of before.
  const cudaError_t last = cudaGetLastError();
  return status != cudaSuccess ? status : last;
}

} // namespace zc::doubled

namespace zc::cuda {

/// In the place of CUB's.
cudaError_t gpuSortPairs(int32_t *keys, int32_t *values, int64_t n, void *space, int64_t spaceBytes,
                         cudaStream_t stream) {
  const char *call = "a sort";
  ZC_DOUBLE(call);
  const auto bytes = static_cast<uint64_t>(8 * n);
  for (const auto &[memory, count] :
       {std::pair<void *, uint64_t>{keys, bytes}, {values, bytes}, {space, static_cast<uint64_t>(spaceBytes)}})
    if (rangeOf(call, memory, count).place == Place::pageable)
      undefined(call, "of memory that no GPU reaches");
  return launched(call, stream, [=] {
    std::memset(space, 0xa5, static_cast<size_t>(spaceBytes));
    sortPairsOnHost(keys, values, n);
  });
}

} // namespace zc::cuda

// Modules: shared objects in memory.

struct CUmod_st {
  void *object;
};
struct CUfunc_st {
  const ModuleEntry *entry;
};

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  const Apart apart;
  if (cudaError_t status = entered("cuModuleLoadData"); status != cudaSuccess)
    return static_cast<CUresult>(status);
  if (!options().image)
    return static_cast<CUresult>(cudaErrorInvalidKernelImage);
  const auto *header = static_cast<const Elf64_Ehdr *>(image);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return static_cast<CUresult>(wrong(cudaErrorInvalidKernelImage, "cuModuleLoadData", "of what is no module"));
  const size_t bytes = header->e_shoff + size_t(header->e_shnum) * header->e_shentsize; // which come last
  const int file = ::memfd_create("module", 0);
  const bool isWritten = ::write(file, image, bytes) == static_cast<ssize_t>(bytes);
  void *object =
      isWritten ? ::dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!object)
    undefined("cuModuleLoadData", isWritten ? ::dlerror() : "cannot be written");
  // The file stays open: the loader knows objects by their paths.
  *module = new CUmod_st{object};
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  const Apart apart;
  if (cudaError_t status = entered("cuModuleGetFunction"); status != cudaSuccess)
    return static_cast<CUresult>(status);
  const auto *entry = static_cast<const ModuleEntry *>(::dlsym(module->object, kModuleEntry));
  if (!entry || std::strcmp(entry->name, name) != 0)
    return CUDA_ERROR_NOT_FOUND;
  *function = new CUfunc_st{entry};
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned,
                        unsigned, unsigned, CUstream stream, void **parameters, void **) {
  const char *call = "cuLaunchKernel";
  const Apart apart;
  if (cudaError_t status = entered(call); status != cudaSuccess)
    return static_cast<CUresult>(status);
  const ModuleEntry &entry = *function->entry;
  if (blocks == 0 || blocks > 0x7fffffffu || y != 1 || z != 1 || threads != entry.threads)
    return static_cast<CUresult>(wrong(cudaErrorInvalidValue, call, "of a grid that the kernel is not for"));
  std::vector<std::vector<char>> kept;
  for (size_t i = 0; i < 2 && entry.bytes[i] > 0; ++i) {
    auto *first = static_cast<char *>(parameters[i]);
    kept.emplace_back(first, first + entry.bytes[i]);
    checkArguments(currentGpu(), call, first, entry.bytes[i]);
  }
  return static_cast<CUresult>(launched(call, stream, [&entry, blocks, kept] {
    if (!entry.run(kept[0].data(), kept.back().data(), blocks))
      undefined("cuLaunchKernel", std::to_string(blocks) + " blocks are not what the kernel's arguments say");
  }));
}
