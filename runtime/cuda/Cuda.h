//===- Cuda.h - GPUs, where there are any ---------------------------------------------===//
//
// The CUDA side is a shared object of its own, loaded when a run asks for it, so that the programs start where no CUDA
// is. It loads cuBLASLt and the like in turn when a kernel needs them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/Stream.h"

#include <string>
#include <utility>
#include <vector>

namespace zc {

struct CudaOptions {
  int rank = 0;              ///< in messages
  int localRank = 0;         ///< among the ranks of this machine: rank i has GPU i, modulo their number
  int localRanks = 1;        ///< ranks of this machine
  uint64_t planned = 0;      ///< bytes of the GPU's memory that the rank will ask for, in messages
  bool isSync = false;       ///< everything on one stream, which is empty when a call returns
  bool shareProcess = false; ///< the ranks of this machine are threads of one process, which read each other's memory
};

/// A rank's GPU. Errors: unsupported (no plugin, driver or GPU; a driver that is older than the build).
Result<std::unique_ptr<Device>> openCudaDevice(const CudaOptions &options);

/// Whether openCudaDevice finds a GPU. Errors as there.
Status checkCuda();

/// What `doctor` says: GPUs, driver, libraries; name and text of each line.
std::vector<std::pair<std::string, std::string>> describeCuda();

/// The plugin's only symbol is "zcCuda", a CudaPlugin.
struct CudaPlugin {
  /// The caller owns the result; null: `error` says why.
  Device *(*open)(const CudaOptions &options, Error &error);
  bool (*check)(Error &error);
  void (*describe)(std::vector<std::pair<std::string, std::string>> &lines);
};

} // namespace zc
