//===- Nvrtc.h - C++ to a GPU's machine code, while a plan is prepared -----------------------===//
#pragma once

#include "base/Status.h"

#include <string>

namespace zc::cuda {

/// The machine code (cubin) of `source` for GPUs of compute capability `major`.`minor`, with kernels/cuda's headers
/// and flags: products and sums are not contracted. Errors: NVRTC is missing or older than the GPU (unsupported); it
/// refuses the source (internal, with what it says).
Result<std::string> compileForGpu(const std::string &source, int major, int minor);

} // namespace zc::cuda
