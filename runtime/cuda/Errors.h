//===- Errors.h - what CUDA says, as errors ---------------------------------------------===//
#pragma once

#include "base/Status.h"

#include <cuda_runtime.h>

#include <optional>
#include <string>

namespace zc::cuda {

/// Whether nothing that this process asks of the GPU will be done any more: it is broken, or what ran on it was ended.
bool isLost(cudaError_t status);

/// Has any GPU of this process been found to be so? Streams of the others may wait for what it never does.
bool someGpuIsLost();
/// It has, by other ways than errorOf.
void noteLostGpu();

/// From now on this thread's calls are to GPU `ordinal`: who is lost says which.
void callsGpu(int ordinal);

/// `status` of doing `what` ("copy 64 bytes"): a GPU that is gone (peer lost), memory (budget), a driver or a GPU that
/// this build is not for (unsupported), and whatever else (internal).
Error errorOf(cudaError_t status, const std::string &what);

// Of what a library failed to do, which does not tell what CUDA said to it. Not while this thread captures a stream.

/// This thread's GPU is lost.
std::optional<Error> lostGpu(const std::string &what);
/// It is lost, or `library` has no memory (budget): it says so, or next to none is free.
std::optional<Error> failedOnGpu(const char *library, const std::string &what, bool saysMemory = false);

/// `what` is only made when it fails.
#define ZC_CUDA(call, what)                                                                                            \
  do {                                                                                                                 \
    if (cudaError_t zcCuda = (call); zcCuda != cudaSuccess)                                                            \
      return ::zc::cuda::errorOf(zcCuda, what);                                                                        \
  } while (0)

} // namespace zc::cuda
