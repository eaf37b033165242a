//===- Adam.cpp - the update's kernels beside what memory allows --------------------===//
//
// usage: bench_adam THREADS ELEMENTS. Reads names from stdin, one a line, and answers each with {"seconds": S} of one
// run, so that others can be measured in between. On parameters in arenas:
//   stream              b = b + 1 in place: 8 bytes an element, the limit
//   adamw fp32          gradient read, parameter and moments read and written: 28 bytes
//   adamw fp32 copy     and the parameter written once more: 32
//   adamw bf16          gradient in bf16, and a copy of the parameter in bf16: 28
//   norm fp32|bf16      the sum of the gradient's squares: 4 or 2
//
//===----------------------------------------------------------------------===//
#include "kernels/Kernel.h"
#include "runtime/device/Arena.h"
#include "test/support/Seconds.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace zc;

namespace {

struct Bench {
  int threads;
  int64_t elements;
  KernelRegistry registry = KernelRegistry();
  std::vector<Arena> arenas = {};
  std::vector<std::unique_ptr<Kernel>> kernels = {};

  /// In arenas, where large pages are; gradients are 1e-3, all else 0.
  void *allocate(DType type, int64_t count, double value = 0) {
    auto arena = Arena::map(uint64_t(count * sizeOf(type)));
    if (!arena)
      std::exit(5);
    for (int64_t i = 0; i < count; ++i)
      if (type == DType::f32)
        reinterpret_cast<float *>(arena->data())[i] = static_cast<float>(value);
      else if (type == DType::bf16)
        reinterpret_cast<uint16_t *>(arena->data())[i] = value == 0 ? 0 : 0x3a83;
    arenas.push_back(std::move(*arena));
    return arenas.back().data();
  }

  std::function<void()> prepare(KernelSpec spec, std::vector<void *> operands) {
    spec.threads = threads;
    auto kernel = registry.prepare(spec);
    if (!kernel) {
      std::fprintf(stderr, "bench_adam: %s\n", kernel.error().message.c_str());
      std::exit(1);
    }
    kernels.push_back(std::move(*kernel));
    return [kernel = kernels.back().get(), operands] { (void)kernel->run(operands.data(), {1, 0, 1e-4}).ok(); };
  }

  std::function<void()> stream() {
    auto *b = static_cast<float *>(allocate(DType::f32, elements));
    return [this, b] {
#pragma omp parallel for simd schedule(static) num_threads(threads)
      for (int64_t i = 0; i < elements; ++i)
        b[i] += 1;
    };
  }

  std::function<void()> adamw(DType gradient, std::vector<DType> out) {
    TensorType flat{DType::f32, {elements}};
    KernelSpec spec;
    spec.name = "adamw";
    spec.operands = {{gradient, {elements}}, {DType::f32, {}}, flat, flat, flat};
    spec.numInputs = 2;
    spec.attributes["weight_decay"] = 0.01;
    std::vector<void *> operands = {allocate(gradient, elements, 1e-3), allocate(DType::f32, 1, 1)};
    for (int i = 0; i < 3; ++i)
      operands.push_back(allocate(DType::f32, elements));
    for (DType type : out) {
      spec.operands.push_back({type, {elements}});
      operands.push_back(allocate(type, elements));
    }
    return prepare(spec, operands);
  }

  std::function<void()> norm(DType gradient) {
    KernelSpec spec;
    spec.name = "norm_partial";
    spec.operands = {{gradient, {elements}}, {DType::i64, {24}}};
    spec.numInputs = 1;
    return prepare(spec, {allocate(gradient, elements, 1e-3), allocate(DType::i64, 24)});
  }
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  Bench bench{std::atoi(argv[1]), std::atoll(argv[2])};
  registerCpuKernels(bench.registry);
  const std::map<std::string, std::function<std::function<void()>()>> makers = {
      {"stream", [&] { return bench.stream(); }},
      {"adamw fp32", [&] { return bench.adamw(DType::f32, {}); }},
      {"adamw fp32 copy", [&] { return bench.adamw(DType::f32, {DType::f32}); }},
      {"adamw bf16", [&] { return bench.adamw(DType::bf16, {DType::bf16}); }},
      {"norm fp32", [&] { return bench.norm(DType::f32); }},
      {"norm bf16", [&] { return bench.norm(DType::bf16); }},
  };
  std::map<std::string, std::function<void()>> contenders;
  for (std::string name; std::getline(std::cin, name);) {
    auto maker = makers.find(name);
    if (maker == makers.end())
      return 2;
    if (contenders.count(name) == 0) {
      contenders[name] = maker->second();
      contenders[name]();
    }
    std::printf("{\"seconds\": %.9f}\n", zc::test::secondsOf(contenders[name]));
    std::fflush(stdout);
  }
}
