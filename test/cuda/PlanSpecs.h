//===- PlanSpecs.h - what plans ask libraries of a GPU for ---------------------------------===//
#pragma once

#include "kernels/Kernel.h"

#include <set>

namespace zc::test {

/// Kernels of a GPU that a library computes by an algorithm of its choice, of several plans, each once.
class LibraryKernels {
public:
  /// Those of the plan in file `path` that were not there yet. Errors: it is no sound plan.
  Result<std::vector<KernelSpec>> add(const std::string &path);

private:
  std::set<std::string> seen;
};

} // namespace zc::test
