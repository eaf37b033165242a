//===- GpuRegistry.h - kernels of a GPU, by name ------------------------------------===//
//
// What the plugin sees of this folder: it needs no nvcc. The .cu files define it; without a GPU, test/cuda/double.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/OrderedSum.h"
#include "kernels/cuda/Launch.h"

#include <cuda_runtime_api.h>

namespace zc::cuda {

using GpuKernel = QueuedKernel<cudaStream_t>;
using GpuKernelRegistry = TargetRegistry<GpuKernel>;
using GpuKernelFactory = GpuKernelRegistry::Factory;

/// All families of this folder that need no library but for `sumsOfProgram`: of a norm's gradient that a program
/// computes (BatchNorm.h).
void addGpuFamilies(GpuKernelRegistry &registry, const GpuKernelFactory &sumsOfProgram);
/// With products that the registry has already.
void addGpuHeads(GpuKernelRegistry &registry);

/// What heads are made with.
inline std::map<std::string, GpuKernelFactory> partsOfHeads(const GpuKernelRegistry &registry) {
  std::map<std::string, GpuKernelFactory> parts;
  for (const char *name : {"matmul", "matmul_part", "cast"})
    parts[name] = *registry.find(name);
  return parts;
}

/// Whether this build has code for the current GPU: else no kernel can be launched.
cudaError_t gpuHasCode();
/// Pairs of 32-bit numbers by key, stably, into the second halves of both: keys and values are arrays of 2 n. Fails
/// where `space` has fewer bytes than it takes.
cudaError_t gpuSortPairs(int32_t *keys, int32_t *values, int64_t n, void *space, int64_t spaceBytes,
                         cudaStream_t stream);
/// orderedSum (kernels/OrderedSum.h), of inputs that the GPU reaches.
cudaError_t gpuOrderedSum(const OrderedSum &sum, cudaStream_t stream);
/// Each of `rows` rows of `to` = the `bytes` bytes at `from`.
cudaError_t gpuRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, cudaStream_t stream);

} // namespace zc::cuda
