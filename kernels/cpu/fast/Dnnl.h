//===- Dnnl.h - what every use of oneDNN needs ---------------------------------===//
#pragma once

#include "runtime/base/CallMemory.h"

#include <dnnl.hpp>
#include <omp.h>
#include <optional>

namespace zc::cpu {

/// oneDNN opens teams of the calling thread's setting, when primitives are made and when they run.
class TeamOf {
public:
  explicit TeamOf(int threads) : before(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~TeamOf() { omp_set_num_threads(before); }
  TeamOf(const TeamOf &) = delete;
  TeamOf &operator=(const TeamOf &) = delete;

private:
  int before;
};

/// Around what a kernel's run asks of oneDNN: its team, and memory for the small objects of the call. What it makes
/// once and keeps it makes in the first call, which is not given any.
class DnnlCall {
public:
  explicit DnnlCall(int threads, bool isFirst) : team(threads) {
    if (isFirst)
      openForWorkers(threads);
    else
      memory.emplace();
  }

private:
  /// The other threads of a team never do anything else.
  static void openForWorkers(int threads) {
#pragma omp parallel num_threads(threads)
    {
      if (omp_get_thread_num() > 0)
        CallMemory::openForGood();
    }
  }

  TeamOf team;
  std::optional<CallMemory> memory;
};

inline const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// Work space is the primitive's owner's, not the library's.
inline dnnl::primitive_attr ownScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

} // namespace zc::cpu
