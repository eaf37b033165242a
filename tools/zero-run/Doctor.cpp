#include "base/Limits.h"
#include "kernels/cpu/fast/Gemm.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/io/OutputFile.h"
#include "runtime/mpi/Mpi.h"
#include "tools/zero-run/Commands.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace zc::run {

namespace {

/// The value of the first line of /proc/cpuinfo or /proc/meminfo that begins with `key`.
std::string procValue(const char *file, const std::string &key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, key.size(), key) == 0) {
      size_t at = line.find(':');
      at = at == std::string::npos ? line.size() : line.find_first_not_of(" \t", at + 1);
      return at == std::string::npos ? "" : line.substr(std::min(at, line.size()));
    }
  return "unknown";
}

std::string instructionSets() {
  std::string flags = " " + procValue("/proc/cpuinfo", "flags") + " ", found;
  for (const char *name : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "avx512_fp16"})
    if (flags.find(std::string(" ") + name + " ") != std::string::npos)
      found += (found.empty() ? "" : " ") + std::string(name);
  return found.empty() ? "none of those we use" : found;
}

std::string cores() {
  CpuLimit limit = cpuLimit();
  std::string text = std::to_string(limit.cores) + " usable of " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
  if (std::isfinite(limit.quota))
    text += ", time of " + std::to_string(limit.quota) + " by quota of a control group";
  return text;
}

/// Whether the kernel, and the sandbox around us, let this process have a ring.
std::string ioUring() {
  io_uring_params params;
  std::memset(&params, 0, sizeof params);
  long fd = ::syscall(SYS_io_uring_setup, 4, &params);
  if (fd < 0)
    return std::string("not available (") + std::strerror(errno) + "), threads are used instead";
  ::close(int(fd));
  return "available";
}

/// Libraries are asked by name, so that this tool needs no more of them than the kernels do.
std::string blasCore() {
  using Name = const char *(*)();
  auto core = reinterpret_cast<Name>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  auto config = reinterpret_cast<Name>(::dlsym(RTLD_DEFAULT, "openblas_get_config"));
  if (!core || !config)
    return "not linked";
  const bool fits = cpu::fittingLibrary() == cpu::GemmLibrary::openblas;
  return std::string(core()) + " (" + config() + ")" +
         (fits ? "" : "; products of fp32 are oneDNN's, whose kernels fit this CPU better");
}

std::string oneDnn() {
  struct Version {
    int major, minor, patch;
    const char *hash;
  };
  using Get = const Version *(*)();
  auto get = reinterpret_cast<Get>(::dlsym(RTLD_DEFAULT, "dnnl_version"));
  if (!get)
    return "not linked";
  const Version *version = get();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." + std::to_string(version->patch);
}

std::string groupLimit() {
  MemoryLimit limit = memoryLimit();
  return limit.isOfGroup ? "; the control group allows " + std::to_string(limit.bytes / 1024) + " kB" : "";
}

} // namespace

Status doctorCommand() {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"cpu", procValue("/proc/cpuinfo", "model name")},
      {"instructions", instructionSets()},
      {"cores", cores()},
      {"memory", procValue("/proc/meminfo", "MemTotal") + ", available " + procValue("/proc/meminfo", "MemAvailable") +
                     groupLimit()},
      {"OpenBLAS", blasCore()},
      {"oneDNN", oneDnn()},
      {"io_uring", ioUring()},
      {"MPI", mpiProblem().value_or("available")},
  };
  for (auto &line : describeCuda())
    lines.push_back(std::move(line));
  std::string out;
  for (const auto &[name, value] : lines)
    out += name + std::string(14 - name.size(), ' ') + value + "\n";
  return io::writeToStdout(out);
}

} // namespace zc::run
