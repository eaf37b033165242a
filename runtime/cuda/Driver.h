//===- Driver.h - what the CUDA runtime has not and the driver has ---------------------------===//
#pragma once

#include <cuda.h>

namespace zc::cuda {

/// Functions of the driver, asked of the runtime, so that nothing links libcuda.so. Null where the driver has them not.
struct Driver {
  CUresult (*waitValue)(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) = nullptr;

  static const Driver &instance();
};

} // namespace zc::cuda
