//===- Quantize.cpp - kernels of quantized pieces beside the triad -----------------===//
//
// usage: bench_quantize THREADS [NAME]. One JSON object per kernel whose name contains NAME: GB/s of the bytes that
// must move (each operand once), the triad's (a = b + 3 c, 12 bytes an element) of the same rounds, and the median of
// the rounds' ratios: what else the machine does disturbs both alike. Operands in arenas of 32 Mi elements, sums of
// four sources, default blocks. `cached`: the same on 64 Ki elements, in the second-level cache, where instructions
// count.
//
//===----------------------------------------------------------------------===//
#include "kernels/Kernel.h"
#include "kernels/Quantized.h"
#include "runtime/device/Arena.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

using namespace zc;

namespace {

constexpr int64_t kLarge = int64_t(32) << 20, kSmall = int64_t(64) << 10, kSources = 4;
constexpr int kRounds = 11;

struct Case {
  const char *kernel;
  bool sums, plainIn, plainOut;
};
constexpr Case kCases[] = {{"quantize", false, true, false},
                           {"dequantize", false, false, true},
                           {"dequantize_sum_quantize", true, false, false},
                           {"dequantize_sum", true, false, true}};

/// Of `bytes` from an arena that all cases share, one for each operand; small numbers in it whatever the type.
void *operand(size_t index, int64_t bytes) {
  static std::vector<Arena> arenas;
  while (arenas.size() <= index) {
    auto arena = Arena::map(uint64_t(kLarge * 5));
    if (!arena)
      std::exit(5);
    std::memset(arena->data(), 1, arena->bytes());
    arenas.push_back(std::move(*arena));
  }
  if (uint64_t(bytes) > arenas[index].bytes())
    std::exit(5);
  return arenas[index].data();
}

/// One thread is timed by its own CPU time, which neighbours on the machine disturb least; teams by the clock.
double seconds(int threads, const std::function<void()> &run) {
  auto now = [threads] {
    timespec time;
    ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  };
  double start = now();
  run();
  return now() - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Prepared {
  std::unique_ptr<Kernel> kernel;
  std::vector<void *> operands;
  double bytes = 0;
  void run() { (void)kernel->run(operands.data(), {1, 0, 1e-3}).ok(); }
};

Prepared prepare(const KernelRegistry &registry, const Case &c, int64_t bits, DType type, int64_t n, int threads) {
  const int64_t block = bits == 8 ? kWeightBlock : kGradientBlock, sources = c.sums ? kSources : 1;
  const int64_t piece = QuantizedPiece{n, bits, block}.bytes();
  const TensorType plain{type, {n}};
  KernelSpec spec;
  spec.name = c.kernel;
  spec.operands = {c.plainIn ? plain : TensorType{DType::u8, {sources * piece}},
                   c.plainOut ? plain : TensorType{DType::u8, {piece}}};
  spec.numInputs = 1;
  spec.threads = threads;
  spec.attributes = {{"bits", bits}, {"block", block}, {"sources", sources}, {"elements", n}};
  auto kernel = registry.prepare(spec);
  if (!kernel)
    std::exit(1);
  Prepared result{std::move(*kernel), {}, 0};
  for (const TensorType &tensor : spec.operands) {
    result.operands.push_back(operand(result.operands.size(), tensor.numBytes()));
    result.bytes += static_cast<double>(tensor.numBytes());
  }
  // Numbers of all sizes, exactly representable ones and others.
  if (c.plainIn)
    for (int64_t i = 0; i < n; ++i) {
      float x = static_cast<float>((i * 7919) % 1000 - 500) * 1e-3f;
      if (type == DType::f32)
        static_cast<float *>(result.operands[0])[i] = x;
      else
        static_cast<uint16_t *>(result.operands[0])[i] = toBf16(x);
    }
  else
    std::memset(result.operands[0], 0x21, static_cast<size_t>(sources * piece)); // scales of 5e-19
  return result;
}

void triad(int threads) {
  auto *a = static_cast<float *>(operand(2, kLarge * 4)), *b = static_cast<float *>(operand(3, kLarge * 4)),
       *c = static_cast<float *>(operand(4, kLarge * 4));
#pragma omp parallel for simd schedule(static) num_threads(threads)
  for (int64_t i = 0; i < kLarge; ++i)
    a[i] = b[i] + 3 * c[i];
}

void measure(const KernelRegistry &registry, const Case &c, int64_t bits, DType type, int threads,
             const std::string &name) {
  Prepared large = prepare(registry, c, bits, type, kLarge, threads);
  std::vector<double> rates, triads, ratios, cached;
  for (int round = -1; round < kRounds; ++round) {
    double limit = 12.0 * double(kLarge) / seconds(threads, [&] { triad(threads); }) / 1e9;
    double rate = large.bytes / seconds(threads, [&] { large.run(); }) / 1e9;
    if (round < 0)
      continue;
    triads.push_back(limit);
    rates.push_back(rate);
    ratios.push_back(rate / limit);
  }
  Prepared small = prepare(registry, c, bits, type, kSmall, threads);
  for (int round = 0; round < 5 * kRounds; ++round)
    cached.push_back(20 * small.bytes /
                     seconds(threads,
                             [&] {
                               for (int i = 0; i < 20; ++i)
                                 small.run();
                             }) /
                     1e9);
  std::printf("{\"bench\": \"%s\", \"threads\": %d, \"value\": %.2f, \"unit\": \"GB/s\", \"triad\": %.2f, \"ratio\": "
              "%.3f, \"cached\": %.1f}\n",
              name.c_str(), threads, median(rates), median(triads), median(ratios), median(cached));
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  KernelRegistry registry;
  registerCpuKernels(registry);
  for (const Case &c : kCases)
    for (int64_t bits : {8, 4})
      for (DType type : {DType::f32, DType::bf16}) {
        bool isPlain = c.plainIn || c.plainOut;
        if (!isPlain && type == DType::bf16)
          continue; // nothing of that type is in it
        std::string name = std::string(c.kernel) + " int" + std::to_string(bits) +
                           (isPlain ? type == DType::f32 ? " fp32" : " bf16" : "");
        if (argc < 3 || name.find(argv[2]) != std::string::npos)
          measure(registry, c, bits, type, threads, name);
      }
}
