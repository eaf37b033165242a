//===- Nvml.h - a GPU's memory, without a context on it -------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>

namespace zc::cuda {

struct GpuMemory {
  uint64_t free, total; ///< bytes
};

/// Of CUDA's GPU `ordinal`, as the driver's management library (NVML) tells it: where cudaMemGetInfo cannot be asked,
/// because there is no room for a context. Nothing where that library is not, or does not know the GPU.
std::optional<GpuMemory> memoryWithoutContext(int ordinal);

} // namespace zc::cuda
