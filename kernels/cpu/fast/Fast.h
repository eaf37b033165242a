//===- Fast.h - laying fast kernels over the plain ones -----------------------===//
#pragma once

#include "kernels/cpu/Support.h"
#include "kernels/cpu/Team.h"

#include <omp.h>

namespace zc::cpu {

/// A note of kernels that a library computes.
inline const std::string kFewerThreads =
    "uses fewer threads than it is given: with more, oneDNN needs a larger workspace than a plan allows it";

/// The spec is left to the plain kernel.
inline Prepared decline() { return std::unique_ptr<Kernel>(); }

/// Part `part` of [0, n) cut into `parts` at multiples of `granule`: depends on nothing else.
struct Range {
  int64_t begin, end;
};
inline Range partOf(int64_t n, int64_t granule, int parts, int part) {
  int64_t units = (n + granule - 1) / granule;
  auto cut = [&](int64_t p) { return std::min(n, units * p / parts * granule); };
  return {cut(part), cut(part + 1)};
}

/// Calls fn(begin, end, part) for `threads` parts of [0, n), each on a thread. With one thread there is no team at all.
/// Should OpenMP give fewer threads than asked for, the parts stay the same.
template <typename Fn> void parallelParts(int threads, int64_t n, int64_t granule, Fn fn) {
  const int team = TeamLimit::of(threads);
  if (team == 1 || n <= granule) {
    for (int part = 0; part < threads; ++part)
      if (Range range = partOf(n, granule, threads, part); range.begin < range.end)
        fn(range.begin, range.end, part);
    return;
  }
#pragma omp parallel num_threads(team)
  for (int part = omp_get_thread_num(); part < threads; part += omp_get_num_threads())
    if (Range range = partOf(n, granule, threads, part); range.begin < range.end)
      fn(range.begin, range.end, part);
}

/// Work below this many elements is not worth a team's few microseconds.
constexpr int64_t kParallelElements = 8192;
/// Nor are products below this many multiplications.
constexpr int64_t kParallelProducts = 1 << 16;
inline int threadsFor(int threads, int64_t elements) { return elements < kParallelElements ? 1 : threads; }

void addFastMatmul(KernelRegistry &registry);
void addTiledMatmul(KernelRegistry &registry);
void addOrderedMatmul(KernelRegistry &registry);
void addFastLinearCrossEntropy(KernelRegistry &registry);
void addFastOptimizer(KernelRegistry &registry);
void addFastActivation(KernelRegistry &registry);
void addFastSoftmax(KernelRegistry &registry);
void addFastNorm(KernelRegistry &registry);
void addFastElementwise(KernelRegistry &registry);
void addFastFused(KernelRegistry &registry);
void addFastReduce(KernelRegistry &registry);
void addFastAttention(KernelRegistry &registry);
void addFastAttentionGrad(KernelRegistry &registry);
void addFastMove(KernelRegistry &registry);
void addFastGather(KernelRegistry &registry);
void addFastMetrics(KernelRegistry &registry);
void addFastConv(KernelRegistry &registry);
void addFastDepthwiseLast(KernelRegistry &registry);
void addFastPool(KernelRegistry &registry);
void addFastPoolLast(KernelRegistry &registry);
void addFastBatchNorm(KernelRegistry &registry);
void addFastBatchNormLast(KernelRegistry &registry);
void addFastQuantize(KernelRegistry &registry);
void addFastDequantize(KernelRegistry &registry);

} // namespace zc::cpu
