//===- Driver.h - what the CUDA runtime has not and the driver has ---------------------------===//
#pragma once

#include <cuda.h>

namespace zc::cuda {

/// Functions of the driver, asked of the runtime, so that nothing links libcuda.so. Null where the driver has them not.
struct Driver {
  CUresult (*waitValue)(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) = nullptr;
  CUresult (*loadModule)(CUmodule *module, const void *image) = nullptr;
  CUresult (*getFunction)(CUfunction *function, CUmodule module, const char *name) = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;

  static const Driver &instance();
};

} // namespace zc::cuda
