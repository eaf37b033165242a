#include "base/Plugin.h"
#include "runtime/cuda/Cuda.h"

namespace zc {

static Result<const CudaPlugin *> load() {
  Plugin plugin = loadPlugin("libzc_cuda.so", "zcCuda", /*isGlobal=*/false);
  if (plugin.symbol)
    return static_cast<const CudaPlugin *>(plugin.symbol);
  if (!plugin.path.empty())
    return makeError(Code::unsupported, 620, "the CUDA part cannot be loaded", plugin.path, plugin.why);
  return makeError(Code::unsupported, 621, "this build has no CUDA: there is no \"libzc_cuda.so\" beside the program",
                   "--device",
                   "build with nvcc 12.4 or later and the headers that tools/setup.sh --cuda brings, or take another "
                   "device: cpu, fake, sync");
}

Result<std::unique_ptr<Device>> openCudaDevice(const CudaOptions &options) {
  Result<const CudaPlugin *> plugin = load();
  ZC_RETURN_IF_ERROR(plugin.status());
  Error error;
  if (Device *device = (*plugin)->open(options, error))
    return std::unique_ptr<Device>(device);
  return error;
}

Status checkCuda() {
  Result<const CudaPlugin *> plugin = load();
  ZC_RETURN_IF_ERROR(plugin.status());
  Error error;
  return (*plugin)->check(error) ? Status() : Status(error);
}

std::vector<std::pair<std::string, std::string>> describeCuda() {
  Result<const CudaPlugin *> plugin = load();
  if (!plugin) {
    const Error &error = plugin.error();
    return {{"cuda", error.message + (error.help.empty() ? "" : ": " + error.help)}};
  }
  std::vector<std::pair<std::string, std::string>> lines;
  (*plugin)->describe(lines);
  return lines;
}

} // namespace zc
