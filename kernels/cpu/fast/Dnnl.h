//===- Dnnl.h - what every use of oneDNN needs ---------------------------------===//
#pragma once

#include "base/CallMemory.h"

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
/// once and keeps it makes in the first call, on any thread of the team, which is not given any: a block of which
/// something is kept is never empty again.
class DnnlCall {
public:
  explicit DnnlCall(int threads, bool isFirst) : team(threads), threads(threads), isFirst(isFirst) {
    if (isFirst)
      onWorkers(CallMemory::close);
    else
      memory.emplace();
  }
  ~DnnlCall() {
    if (isFirst)
      onWorkers(CallMemory::openForGood);
  }
  DnnlCall(const DnnlCall &) = delete;
  DnnlCall &operator=(const DnnlCall &) = delete;

private:
  /// The other threads of a team never do anything else.
  void onWorkers(void (*set)()) const {
#pragma omp parallel num_threads(threads)
    {
      if (omp_get_thread_num() > 0)
        set();
    }
  }

  TeamOf team;
  std::optional<CallMemory> memory;
  const int threads;
  const bool isFirst;
};

/// May oneDNN use it? Before, its products of bf16 are worth nothing, and its convolutions those of other layouts.
inline bool hasAvx512() {
  constexpr auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

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
