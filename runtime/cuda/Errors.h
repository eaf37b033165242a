//===- Errors.h - what CUDA says, as errors ---------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cuda_runtime.h>

namespace zc::cuda {

/// `status` of doing `what` ("copy 64 bytes"): a GPU that is gone (peer lost), memory (budget), a driver or a GPU that
/// this build is not for (unsupported), and whatever else (internal).
Error errorOf(cudaError_t status, const std::string &what);

/// `what` is only made when it fails.
#define ZC_CUDA(call, what)                                                                                            \
  do {                                                                                                                 \
    if (cudaError_t zcCuda = (call); zcCuda != cudaSuccess)                                                            \
      return ::zc::cuda::errorOf(zcCuda, what);                                                                        \
  } while (0)

} // namespace zc::cuda
