//===- Dnnl.h - what every use of oneDNN needs ---------------------------------===//
#pragma once

#include <dnnl.hpp>
#include <omp.h>

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
