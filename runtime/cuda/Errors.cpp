#include "runtime/cuda/Errors.h"

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

Error errorOf(cudaError_t status, const std::string &what) {
  std::string text = std::string(cudaGetErrorName(status)) + ", " + cudaGetErrorString(status);
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
  case cudaErrorMemoryAllocation:
    return makeError(Code::budget, 625, "cannot " + what + ": " + text);
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorDevicesUnavailable:
  case cudaErrorDeviceUninitialized:
  case cudaErrorContextIsDestroyed:
    return makeError(Code::peerLost, 626, "the GPU is lost: cannot " + what + ": " + text, {},
                     "see dmesg for Xid, and resume from the last checkpoint");
  default:
    return makeError(Code::internal, 627, "cannot " + what + ": " + text, {},
                     "--device cuda-sync names the step that did it");
  }
}

} // namespace zc::cuda
