//===- Fast.h - laying fast kernels over the plain ones -----------------------===//
#pragma once

#include "kernels/cpu/SharedTasks.h"
#include "kernels/cpu/Support.h"
#include "kernels/cpu/Team.h"

#include <omp.h>

namespace zc::cpu {

/// A note of kernels that a library computes.
inline const std::string kFewerThreads =
    "uses fewer threads than it is given: with more, oneDNN needs a larger workspace than a plan allows it";

/// Has this CPU vectors that the fast kernels are compiled for? If not, all is left to the plain ones.
bool hasVectors();

/// The spec is left to the plain kernel.
inline Prepared decline() { return std::unique_ptr<Kernel>(); }

/// Part `part` of [0, n) cut into `parts` at multiples of `granule`: depends on nothing else.
struct Range {
  int64_t begin, end;
};
inline Range partOf(int64_t n, int64_t granule, int parts, int part) {
  int64_t units = quotientUp(n, granule);
  auto cut = [&](int64_t p) { return std::min(n, units * p / parts * granule); };
  return {cut(part), cut(part + 1)};
}

/// Calls fn(thread) on each of a team of at most `threads` threads, this one among them. With one thread there is no
/// team at all.
template <typename Fn> void parallelTeam(int threads, Fn fn) {
  const int team = TeamLimit::of(threads);
  if (team == 1) {
    fn(0);
    return;
  }
#pragma omp parallel num_threads(team)
  fn(omp_get_thread_num());
}

/// Calls fn(begin, end, part) for `threads` parts of [0, n), each on a thread, for sums whose order the cut decides.
/// Should OpenMP give fewer threads than asked for, the parts stay the same.
template <typename Fn> void parallelParts(int threads, int64_t n, int64_t granule, Fn fn) {
  const int team = n <= granule ? 1 : TeamLimit::of(threads);
  parallelTeam(team, [&](int thread) {
    const int present = team == 1 ? 1 : omp_get_num_threads();
    for (int part = thread; part < threads; part += present)
      if (Range range = partOf(n, granule, threads, part); range.begin < range.end)
        fn(range.begin, range.end, part);
  });
}

/// Calls fn(begin, end, thread) for pieces of [0, n), cut at multiples of `granule`, as threads take them: for work
/// that no cut changes.
template <typename Fn> void parallelRanges(int threads, int64_t n, int64_t granule, Fn fn) {
  constexpr int64_t kPieces = 16; // of a thread: the last one leaves others waiting
  const int team = n <= granule ? 1 : TeamLimit::of(threads);
  if (team == 1) {
    if (n > 0)
      fn(int64_t(0), n, 0);
    return;
  }
  const auto pieces = static_cast<int>(std::min<int64_t>(quotientUp(n, granule), kPieces * team));
  SharedTasks tasks(pieces, team);
  parallelTeam(team, [&](int thread) {
    for (int64_t piece = tasks.take(thread); piece >= 0; piece = tasks.take(thread)) {
      const Range range = partOf(n, granule, pieces, static_cast<int>(piece));
      fn(range.begin, range.end, thread);
    }
  });
}

/// Work below this many elements is not worth a team's few microseconds.
constexpr int64_t kParallelElements = 8192;
/// Of loops over elements, what threads take at a time at least.
constexpr int64_t kPieceElements = 2048;
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
void addFastDropout(KernelRegistry &registry);
void addFastFused(KernelRegistry &registry);
void addFastReduce(KernelRegistry &registry);
void addFastExtremum(KernelRegistry &registry);
void addFastAttention(KernelRegistry &registry);
void addFastAttentionGrad(KernelRegistry &registry);
void addFastMove(KernelRegistry &registry);
void addFastGather(KernelRegistry &registry);
void addFastIndex(KernelRegistry &registry);
void addFastMetrics(KernelRegistry &registry);
void addFastConv(KernelRegistry &registry);
void addPointConv(KernelRegistry &registry);
void addConvColumns(KernelRegistry &registry);
void addFastDepthwiseLast(KernelRegistry &registry);
void addFastPool(KernelRegistry &registry);
void addFastPoolLast(KernelRegistry &registry);
void addFastBatchNorm(KernelRegistry &registry);
void addFastBatchNormLast(KernelRegistry &registry);
void addFastGroupNorm(KernelRegistry &registry);
void addFastQuantize(KernelRegistry &registry);
void addFastDequantize(KernelRegistry &registry);

} // namespace zc::cpu
