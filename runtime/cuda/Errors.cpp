#include "runtime/cuda/Errors.h"

#include "base/Failpoint.h"

#include <atomic>

namespace zc::cuda {

static std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

static Error oldDriver() {
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  return makeError(Code::unsupported, 622,
                   driver == 0 ? "there is no NVIDIA driver on this machine"
                               : "the NVIDIA driver knows CUDA " + version(driver) + ", this build is of CUDA " +
                                     version(CUDART_VERSION),
                   "--device",
                   driver == 0 ? "install NVIDIA's driver, or take another device: cpu, fake, sync"
                               : "update the driver, or build with an older toolkit (12.4 at least)");
}

static std::atomic<bool> someIsLost{false};

bool someGpuIsLost() { return someIsLost; }
void noteLostGpu() { someIsLost = true; }

static thread_local int called = -1; // GPU

void callsGpu(int ordinal) { called = ordinal; }

bool isLost(cudaError_t status) {
  switch (status) {
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorDevicesUnavailable:
  case cudaErrorDeviceUninitialized:
  case cudaErrorContextIsDestroyed:
  case cudaErrorUnknown:
  // A kernel was ended, and the context with it: by a fault of the GPU's (Xid 13, 31, 43, ...) or of the kernel's own.
  case cudaErrorIllegalAddress:
  case cudaErrorIllegalInstruction:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorMisalignedAddress:
  case cudaErrorHardwareStackError:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
#if CUDART_VERSION >= 12080
  case cudaErrorContained:
  case cudaErrorTensorMemoryLeak:
#endif
    return true;
  default:
    return false;
  }
}

/// "GPU 0 of rank 1".
static std::string calledGpu() {
  std::string name = called < 0 ? "the GPU" : "GPU " + std::to_string(called);
  return faultRank() < 0 ? name : name + " of rank " + std::to_string(faultRank());
}

Error errorOf(cudaError_t status, const std::string &what) {
  std::string text = std::string(cudaGetErrorName(status)) + ", " + cudaGetErrorString(status);
  if (isLost(status)) {
    noteLostGpu();
    return makeError(Code::peerLost, 626, calledGpu() + " is lost: cannot " + what + ": " + text, {},
                     "see dmesg for Xid, and resume from the last checkpoint; if it is lost there again, --device "
                     "cuda-sync names the step that did it");
  }
  switch (status) {
  case cudaErrorInsufficientDriver:
    return oldDriver();
  case cudaErrorNoDevice:
  case cudaErrorSystemDriverMismatch:
  case cudaErrorSystemNotReady:
  case cudaErrorStubLibrary:
  case cudaErrorCompatNotSupportedOnDevice:
    return makeError(Code::unsupported, 623, "no GPU can be used: " + text, "--device",
                     "see nvidia-smi and CUDA_VISIBLE_DEVICES, or take another device: cpu, fake, sync");
  case cudaErrorNoKernelImageForDevice:
  case cudaErrorUnsupportedPtxVersion:
    return makeError(Code::unsupported, 624, "this build has no code for the GPU: " + text, "--device",
                     "build with -DZC_CUDA_ARCHITECTURES=native");
  case cudaErrorInvalidKernelImage: // a newer compiler's
    return makeError(Code::unsupported, 639, "cannot " + what + ": the driver does not take its machine code: " + text,
                     "--device", "update the driver, or name CUDA's libraries of its version in ZERO_CUDA_LIBRARIES");
  case cudaErrorMemoryAllocation:
    return makeError(Code::budget, 625, "cannot " + what + ": " + text);
  default:
    return makeError(Code::internal, 627, "cannot " + what + ": " + text, {},
                     "--device cuda-sync names the step that did it");
  }
}

std::optional<Error> lostGpu(const std::string &what) {
  size_t free = 0, total = 0;
  const cudaError_t asked = cudaMemGetInfo(&free, &total);
  return isLost(asked) ? std::optional(errorOf(asked, what)) : std::nullopt;
}

std::optional<Error> failedOnGpu(const char *library, const std::string &what, bool saysMemory) {
  constexpr size_t kLittle = size_t(256) << 20; // what connections of a machine's GPUs may take
  if (std::optional<Error> lost = lostGpu(what))
    return lost;
  size_t free = 0, total = 0;
  const bool isAsked = cudaMemGetInfo(&free, &total) == cudaSuccess;
  if (!saysMemory && (!isAsked || free >= kLittle))
    return std::nullopt;
  return makeError(
      Code::budget, 664,
      std::string(library) + " cannot " + what + ": of " + std::to_string(total >> 20) + " MiB of device memory " +
          std::to_string(free >> 20) + " MiB are free",
      {}, std::string(library) + " takes memory beside the plan's: see nvidia-smi for who has it, and docs/cuda.md");
}

} // namespace zc::cuda
