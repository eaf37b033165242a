//===- GpuRegistry.h - kernels of a GPU, by name ------------------------------------===//
//
// What the plugin sees of this folder: it needs no nvcc.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "runtime/comm/Sums.h"

#include <cuda_runtime_api.h>

namespace zc::cuda {

/// A prepared kernel of a GPU. `enqueue` is called from one thread at a time.
class GpuKernel {
public:
  virtual ~GpuKernel() = default;
  /// `operands[i]` points at operand i's elements, and one past the last at the workspace, if there is one. Errors: the
  /// launch was refused.
  virtual Status enqueue(void *const *operands, const Frame &frame, cudaStream_t stream) = 0;
  /// Why it is not the implementation that was planned; empty: it is.
  virtual std::string note() const { return {}; }
};

using GpuKernelFactory = std::function<Result<std::unique_ptr<GpuKernel>>(const KernelSpec &)>;

/// Kernels by name.
class GpuKernelRegistry {
public:
  void add(const std::string &name, GpuKernelFactory factory) { factories[name] = std::move(factory); }
  const GpuKernelFactory *find(const std::string &name) const {
    auto found = factories.find(name);
    return found == factories.end() ? nullptr : &found->second;
  }
  const std::map<std::string, GpuKernelFactory> &all() const { return factories; }

private:
  std::map<std::string, GpuKernelFactory> factories;
};

void addGpuArithmetic(GpuKernelRegistry &registry);
void addGpuAttention(GpuKernelRegistry &registry);
void addGpuCasts(GpuKernelRegistry &registry);
void addGpuFunctions(GpuKernelRegistry &registry);
void addGpuScatters(GpuKernelRegistry &registry);
void addGpuMove(GpuKernelRegistry &registry);
void addGpuOptimizers(GpuKernelRegistry &registry);
void addGpuOrder(GpuKernelRegistry &registry);
void addGpuQuantization(GpuKernelRegistry &registry);
void addGpuRandom(GpuKernelRegistry &registry);
void addGpuReductions(GpuKernelRegistry &registry);
void addGpuRows(GpuKernelRegistry &registry);
/// `sumsOfProgram`: of a norm's gradient that a program computes (BatchNorm.h).
void addGpuVision(GpuKernelRegistry &registry, const GpuKernelFactory &sumsOfProgram);

/// With products that the registry has already.
void addGpuHeads(GpuKernelRegistry &registry);

/// All families of this folder that need no library but for `sumsOfProgram`, a .cu each.
inline void addGpuFamilies(GpuKernelRegistry &registry, const GpuKernelFactory &sumsOfProgram) {
  addGpuArithmetic(registry);
  addGpuAttention(registry);
  addGpuCasts(registry);
  addGpuFunctions(registry);
  addGpuScatters(registry);
  addGpuMove(registry);
  addGpuOptimizers(registry);
  addGpuOrder(registry);
  addGpuQuantization(registry);
  addGpuRandom(registry);
  addGpuReductions(registry);
  addGpuRows(registry);
  addGpuVision(registry, sumsOfProgram);
}

/// Whether this build has code for the current GPU: else no kernel can be launched.
cudaError_t gpuHasCode();
/// Pairs of 32-bit numbers by key, stably, into the second halves of both: keys and values are arrays of 2 n. Fails
/// where `space` has fewer bytes than it takes.
cudaError_t gpuSortPairs(int32_t *keys, int32_t *values, int64_t n, void *space, int64_t spaceBytes,
                         cudaStream_t stream);
/// orderedSum (Sums.h), of inputs that the GPU reaches.
cudaError_t gpuOrderedSum(const OrderedSum &sum, cudaStream_t stream);
/// Each of `rows` rows of `to` = the `bytes` bytes at `from`.
cudaError_t gpuRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, cudaStream_t stream);

} // namespace zc::cuda
