//===- Library.h - CUDA's libraries, loaded when first needed ------------------------------===//
//
// The plugin builds from headers alone and starts where a library is missing; what is missing is an error that names
// it and the package that has it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace zc::cuda {

/// One shared object, looked for in the folders of ZERO_CUDA_LIBRARIES (a:b), by the loader, where tools/setup.sh
/// --cuda-libraries puts it, and in a toolkit.
class Library {
public:
  /// `names`: the newest first. `package`: of PyPI.
  Library(std::vector<std::string> names, const char *package);
  /// Resolves a function by name.
  template <typename Function> void take(Function &function, const char *name) {
    function = reinterpret_cast<Function>(symbol(name));
  }
  /// Errors: not found, or without a function that was asked for (unsupported).
  const Status &status() const { return state; }
  const std::string &path() const { return found; }
  /// Of dlopen; null where it was not found.
  void *handleOrNull() const { return handle; }

private:
  void *symbol(const char *name);

  void *handle = nullptr;
  const char *package;
  std::string found;
  Status state;
};

// Which versions of each are taken, for those who load one and for `doctor`. Of libraries that come with CUDA, that of
// the CUDA which this build is of first.
Library cudaRuntimeLibrary(); ///< that cuDNN looks for: ours is linked into the plugin
Library cublasLtLibrary();
Library cudnnLibrary();
Library ncclLibrary();

/// NVRTC, and the library of built-in functions that it looks for when it compiles, by name alone: not every version
/// finds it in its own folder. `missing`: that one's name, if NVRTC is there and it is not.
Library nvrtcLibrary(std::string *missing = nullptr);

/// What `doctor` says of the libraries: name, and version or what is missing.
std::vector<std::pair<std::string, std::string>> describeLibraries();

} // namespace zc::cuda
