//===- Adam.cpp - the update's kernel beside what memory allows --------------------===//
//
// usage: bench_adam THREADS. One JSON object per line, GB/s, medians of interleaved rounds on 32 Mi parameters in
// arenas: the update in place b = b + 1 (the limit), adamw with fp32 gradients (28 bytes a parameter: gradient read,
// parameter and moments read and written), adamw with bf16 gradients and a bf16 copy of the parameters (28 bytes as
// well), and with an fp32 copy (32).
//
//===----------------------------------------------------------------------===//
#include "kernels/Kernel.h"
#include "runtime/device/Arena.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

using namespace zc;

namespace {

constexpr int64_t kElements = int64_t(32) << 20;

struct Contender {
  const char *name;
  double bytes; ///< of a parameter
  std::function<void()> run;
  std::vector<double> seconds = {};
};

void *allocate(DType type) {
  static std::vector<Arena> arenas;
  auto arena = Arena::map(uint64_t(kElements * sizeOf(type)));
  if (!arena)
    std::exit(5);
  arenas.push_back(std::move(*arena));
  std::memset(arenas.back().data(), 0, arenas.back().bytes());
  return arenas.back().data();
}

std::function<void()> adamw(const KernelRegistry &registry, int threads, DType gradient, std::vector<DType> out) {
  TensorType flat{DType::f32, {kElements}};
  KernelSpec spec;
  spec.name = "adamw";
  spec.operands = {{gradient, {kElements}}, {DType::f32, {}}, flat, flat, flat};
  for (DType type : out)
    spec.operands.push_back({type, {kElements}});
  spec.numInputs = 2;
  spec.threads = threads;
  spec.attributes["weight_decay"] = 0.01;
  static std::vector<std::unique_ptr<Kernel>> kernels;
  auto kernel = registry.prepare(spec);
  if (!kernel)
    std::exit(1);
  kernels.push_back(std::move(*kernel));
  static void *state[] = {allocate(DType::f32), allocate(DType::f32), allocate(DType::f32)};
  static float factor = 1;
  std::vector<void *> operands = {allocate(gradient), &factor, state[0], state[1], state[2]};
  for (DType type : out)
    operands.push_back(allocate(type));
  return [kernel = kernels.back().get(), operands] { (void)kernel->run(operands.data(), {1, 0, 1e-4}).ok(); };
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  KernelRegistry registry;
  registerCpuKernels(registry);
  auto *b = static_cast<float *>(allocate(DType::f32));
  std::vector<Contender> contenders = {
      {"update_in_place", 8,
       [=] {
#pragma omp parallel for simd schedule(static) num_threads(threads)
         for (int64_t i = 0; i < kElements; ++i)
           b[i] += 1;
       }},
      {"adamw fp32", 28, adamw(registry, threads, DType::f32, {})},
      {"adamw bf16 gradient, bf16 copy", 28, adamw(registry, threads, DType::bf16, {DType::bf16})},
      {"adamw fp32, fp32 copy", 32, adamw(registry, threads, DType::f32, {DType::f32})},
  };
  for (int round = -1; round < 9; ++round)
    for (Contender &contender : contenders) {
      auto start = std::chrono::steady_clock::now();
      contender.run();
      if (round >= 0)
        contender.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  for (Contender &contender : contenders) {
    std::sort(contender.seconds.begin(), contender.seconds.end());
    double seconds = contender.seconds[contender.seconds.size() / 2];
    std::printf("{\"bench\": \"%s\", \"threads\": %d, \"value\": %.2f, \"unit\": \"GB/s\"}\n", contender.name, threads,
                contender.bytes * double(kElements) / seconds / 1e9);
  }
}
