// NVRTC's double: compiles a kernel for the host, with the headers that it is given, once for each source (in
// ZC_CUDA_DOUBLE_CACHE). What a GPU's compiler would say of it, test/cuda/NvrtcTest.cpp asks.
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

struct _nvrtcProgram {
  std::string source, code;
  std::vector<std::pair<std::string, std::string>> headers;
};

namespace {

/// Behind the source: the entry of the module.
std::string entryOf(const std::string &source) {
  const bool isSum = source.find("ChannelSums.h") != std::string::npos;
  const char *const runs = isSum ? R"(
  const auto &s = *static_cast<const GradSumsArguments *>(last);
  fused(a, s);
  return blocks == s.cut.blocks(s.isPacked ? kProgramPack<fused_program> : 1);)"
                                 : R"(
  fused(a);
  return blocks == blocksFor(a.elements);)";
  return std::string("\n#include \"") + ZC_MODULE_HEADER + R"("
using namespace zc::cuda;
static bool run(const void *first, [[maybe_unused]] const void *last, unsigned blocks) {
  const auto &a = *static_cast<const FusedArguments *>(first);)" +
         runs + R"(
}
extern "C" {
extern const zc::doubled::ModuleEntry zcModuleEntry;
}
const zc::doubled::ModuleEntry zcModuleEntry = {"fused", )" +
         (isSum ? "kColumnThreads, {sizeof(FusedArguments), sizeof(GradSumsArguments)}"
                : "kElementThreads, {sizeof(FusedArguments), 0}") +
         ", run};\n";
}

std::string contents(const fs::path &file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The shared object, from the cache or made; empty: the compiler refuses.
std::string compiled(const _nvrtcProgram &program) {
  const char *cache = std::getenv("ZC_CUDA_DOUBLE_CACHE");
  const fs::path folder = cache ? cache : fs::temp_directory_path();
  std::string all = program.source;
  for (const auto &[name, text] : program.headers)
    all += text;
  const fs::path kept = folder / ("fused-" + std::to_string(std::hash<std::string>()(all)) + ".so");
  if (cache && fs::exists(kept))
    return contents(kept);
  char made[] = "/tmp/zc-nvrtc-XXXXXX";
  const fs::path work = ::mkdtemp(made);
  for (const auto &[name, text] : program.headers)
    if (name.find('/') != std::string::npos) { // <cmath> and the like are the compiler's own
      fs::create_directories((work / name).parent_path());
      std::ofstream(work / name) << text;
    }
  std::ofstream(work / "fused.cpp") << program.source << entryOf(program.source);
  const fs::path object = work / "fused.so";
  const std::string command = std::string(ZC_CXX) + " -std=c++17 -O1 -fwrapv -ffp-contract=off -shared -fPIC -I " +
                              work.string() + " " + (work / "fused.cpp").string() + " -o " + object.string();
  std::string code = std::system(command.c_str()) == 0 ? contents(object) : "";
  if (cache && !code.empty()) {
    const fs::path mine = folder / (work.filename().string() + ".so");
    fs::copy_file(object, mine);
    fs::rename(mine, kept); // as a whole, beside others who do the same
  }
  fs::remove_all(work);
  return code;
}

} // namespace

nvrtcResult nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *, int count,
                               const char *const *headers, const char *const *names) {
  *program = new _nvrtcProgram{source, {}, {}};
  for (int i = 0; i < count; ++i)
    (*program)->headers.emplace_back(names[i], headers[i]);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options) {
  bool isForGpu = false, isContracted = true;
  for (int i = 0; i < count; ++i) {
    isForGpu |= std::strcmp(options[i], "--gpu-architecture=sm_90") == 0;
    isContracted &= std::strcmp(options[i], "--fmad=false") != 0;
  }
  if (!isForGpu || isContracted)
    return NVRTC_ERROR_INVALID_OPTION;
  program->code = compiled(*program);
  return program->code.empty() ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t *bytes) {
  *bytes = 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char *log) {
  *log = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
  *bytes = program->code.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return NVRTC_SUCCESS;
}
const char *nvrtcGetErrorString(nvrtcResult) { return "what the host's compiler says on stderr"; }
