//===- Fast.h - laying fast kernels over the plain ones -----------------------===//
#pragma once

#include "kernels/cpu/Support.h"

#include <omp.h>

namespace zc::cpu {

/// Registry being filled, and the plain kernels below it.
class Overlay {
public:
  Overlay(KernelRegistry &registry, std::shared_ptr<const KernelRegistry> plain)
      : registry(registry), plain(std::move(plain)) {}

  /// `factory` may decline a spec, for its types or shape, with a null kernel: the plain one is used then.
  void add(const std::string &name, KernelFactory factory) {
    registry.add(name, [plain = plain, factory = std::move(factory)](const KernelSpec &spec) -> Prepared {
      Prepared kernel = factory(spec);
      return kernel.ok() && !*kernel ? plain->prepare(spec) : std::move(kernel);
    });
  }

private:
  KernelRegistry &registry;
  std::shared_ptr<const KernelRegistry> plain;
};

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
  if (threads == 1 || n <= granule) {
    for (int part = 0; part < threads; ++part)
      if (Range range = partOf(n, granule, threads, part); range.begin < range.end)
        fn(range.begin, range.end, part);
    return;
  }
#pragma omp parallel num_threads(threads)
  for (int part = omp_get_thread_num(); part < threads; part += omp_get_num_threads())
    if (Range range = partOf(n, granule, threads, part); range.begin < range.end)
      fn(range.begin, range.end, part);
}

/// Work below this many elements is not worth a team's few microseconds.
constexpr int64_t kParallelElements = 8192;
inline int threadsFor(int threads, int64_t elements) { return elements < kParallelElements ? 1 : threads; }

void addFastMatmul(Overlay &overlay);
void addFastOptimizer(Overlay &overlay);
void addFastActivation(Overlay &overlay);
void addFastSoftmax(Overlay &overlay);
void addFastNorm(Overlay &overlay);
void addFastElementwise(Overlay &overlay);
void addFastReduce(Overlay &overlay);
void addFastAttention(Overlay &overlay);
void addFastMove(Overlay &overlay);
void addFastGather(Overlay &overlay);
void addFastMetrics(Overlay &overlay);
void addFastConv(Overlay &overlay);
void addFastPool(Overlay &overlay);
void addFastBatchNorm(Overlay &overlay);
void addFastQuantize(Overlay &overlay);
void addFastDequantize(Overlay &overlay);

} // namespace zc::cpu
