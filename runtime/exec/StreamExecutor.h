//===- StreamExecutor.h - a rank on a device with streams --------------------------===//
#pragma once

#include "runtime/device/Stream.h"
#include "runtime/exec/Executor.h"

namespace zc {

/// As prepareRank, on `device`; `registry` has the kernels of queues that the host serves. `note`: what the user should
/// know of the devices, or empty.
Result<std::unique_ptr<RankExecutor>> prepareOnDevice(std::unique_ptr<Device> device, const planpb::Plan &plan,
                                                      const ExecutorOptions &options, Communicator &communicator,
                                                      const KernelRegistry &registry, InputLoader &loader,
                                                      const std::string &note = {});

} // namespace zc
