//===- Choices.h - what libraries were asked for, and took -------------------------------===//
//
// A library's heuristics choose an algorithm while a kernel is prepared, by the shape and by the GPU: which one it was
// is known here alone. Of all kernels of the process, each question once; whoever compares versions or GPUs reads it
// (zc-gpu-bench --shapes).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/Stream.h"

#include <map>
#include <mutex>

namespace zc::cuda {

class Choices {
public:
  static Choices &instance();
  /// `asked`: all that decides, but for the GPU and the version; `taken`: the algorithm, or why there is none.
  void add(const char *library, const std::string &asked, const std::string &taken);
  std::vector<LibraryChoice> all() const;

private:
  mutable std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::string> taken; ///< by library and question
};

} // namespace zc::cuda
