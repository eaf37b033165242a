#include "runtime/exec/TuneProducts.h"
#include "kernels/Workspace.h"
#include "runtime/device/Arena.h"

#include <algorithm>
#include <ctime>

namespace zc {

namespace {

/// Seconds: of one thread those that it had the processor, so that others on the machine count less; of several, which
/// wait for each other, those of a clock.
double secondsOn(int threads) {
  timespec time{};
  ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Eighths from -1 to 1: nothing overflows, nothing is denormal.
void fill(void *elements, const TensorType &type) {
  const int64_t count = type.numElements();
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i * 2654435761 % 17 - 8) / 8;
    if (type.dtype == DType::f32)
      static_cast<float *>(elements)[i] = value;
    else
      static_cast<uint16_t *>(elements)[i] = type.dtype == DType::bf16 ? toBf16(value) : toF16(value);
  }
}

/// A product's memory, which all its choices use in turn.
struct Operands {
  std::vector<Arena> arenas;
  std::vector<void *> pointers;

  Status add(int64_t bytes) {
    auto arena = Arena::map(static_cast<uint64_t>(bytes));
    ZC_RETURN_IF_ERROR(arena.status());
    pointers.push_back(arena->data());
    arenas.push_back(std::move(*arena));
    return {};
  }
};

/// One way of computing it.
struct Candidate {
  ProductChoice choice;
  std::unique_ptr<Kernel> kernel;
  int64_t repeats = 1; ///< that take long enough for a clock
  std::vector<double> seconds = {};

  Status run(const Operands &operands, int threads) {
    constexpr double kShortest = 2e-3;
    for (;;) {
      const double begin = secondsOn(threads);
      for (int64_t i = 0; i < repeats; ++i)
        ZC_RETURN_IF_ERROR(kernel->run(operands.pointers.data(), {}));
      const double taken = secondsOn(threads) - begin;
      if (taken >= kShortest || !seconds.empty() || repeats > 1 << 20) {
        seconds.push_back(taken / double(repeats));
        return {};
      }
      repeats *= 2;
    }
  }
};

/// Those that this machine can do in the workspace that plans have.
Result<std::vector<Candidate>> candidatesFor(const KernelRegistry &registry, const ProductShape &shape,
                                             const KernelSpec &base) {
  std::vector<Candidate> candidates;
  for (const ProductChoice &choice : choicesFor(shape)) {
    const ProductTable table = {{shape, {choice, 0, 0}}};
    KernelSpec spec = base;
    spec.products = &table;
    auto kernel = registry.prepare(spec);
    if (!kernel && kernel.error().code == Code::mismatch)
      continue;
    ZC_RETURN_IF_ERROR(kernel.status());
    candidates.push_back({choice, std::move(*kernel)});
  }
  return candidates;
}

Result<ProductEntry> tune(const KernelRegistry &registry, const ProductShape &shape, const TuneOptions &options) {
  KernelSpec spec = specOf(shape);
  spec.workspace = workspaceBytes(spec, Target::cpu);
  auto candidates = candidatesFor(registry, shape, spec);
  ZC_RETURN_IF_ERROR(candidates.status());
  Operands operands;
  for (const TensorType &type : spec.operands)
    ZC_RETURN_IF_ERROR(operands.add(type.numBytes()));
  for (size_t i = 0; i < spec.numInputs; ++i)
    fill(operands.pointers[i], spec.operands[i]);
  ZC_RETURN_IF_ERROR(operands.add(std::max<int64_t>(spec.workspace, 64)));
  for (int round = 0; round <= options.rounds; ++round) // the first one finds out how often, and touches pages
    for (Candidate &candidate : *candidates)
      ZC_RETURN_IF_ERROR(candidate.run(operands, shape.threads));
  auto secondsOf = [](const Candidate &candidate) {
    return median({candidate.seconds.begin() + 1, candidate.seconds.end()});
  };
  const Candidate *best = &candidates->front();
  const double without = secondsOf(*best);
  for (const Candidate &candidate : *candidates)
    if (secondsOf(candidate) < std::min(secondsOf(*best), without * (1 - options.least)))
      best = &candidate;
  return ProductEntry{best->choice, shape.flops() / secondsOf(*best), shape.flops() / without};
}

} // namespace

Result<ProductTable> tuneProducts(const std::vector<ProductShape> &shapes, const TuneOptions &options) {
  KernelRegistry registry;
  registerCpuKernels(registry);
  ProductTable table;
  for (const ProductShape &shape : shapes) {
    if (table.count(shape))
      continue;
    auto entry = tune(registry, shape, options);
    ZC_RETURN_IF_ERROR(entry.status());
    table.emplace(shape, *entry);
    if (options.done)
      options.done(shape, *entry);
  }
  return table;
}

} // namespace zc
