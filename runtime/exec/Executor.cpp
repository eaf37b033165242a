#include "runtime/exec/Executor.h"

namespace zc {

std::optional<DeviceKind> deviceFromName(std::string_view name) {
  if (name == "sync")
    return DeviceKind::sync;
  if (name == "cpu")
    return DeviceKind::cpu;
  if (name == "fake")
    return DeviceKind::fake;
  if (name == "cuda")
    return DeviceKind::cuda;
  if (name == "cuda-sync")
    return DeviceKind::cudaSync;
  return std::nullopt;
}

} // namespace zc
