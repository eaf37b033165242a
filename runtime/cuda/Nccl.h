//===- Nccl.h - messages between GPUs of ranks that are processes -----------------------===//
#pragma once

#include "runtime/comm/DeviceLinks.h"
#include "runtime/cuda/Streams.h"

namespace zc::cuda {

/// Whether NCCL can be loaded and has all functions that are used; the error says what is missing (unsupported).
const Status &ncclStatus();

/// Of GPU `gpu`, which no other rank has. Errors: NCCL cannot be loaded (unsupported).
Result<std::unique_ptr<DeviceLinks>> makeNcclLinks(GpuState &gpu);

} // namespace zc::cuda
