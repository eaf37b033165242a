//===- Limits.cpp - what this machine can do at most: memory and matrix products ---===//
//
// usage: bench_limits THREADS [memory]. One JSON object per line; medians of at least five rounds. Memory: the triad a
// = b + 3 c with streaming stores where the compiler emits them, and the in-place update b = b + 1 that an optimizer
// is. Of one thread also the triad within the second cache. Matrix products: the shapes of G124M (12 x 768, vocabulary
// 50257, 1024 rows), fp32 through OpenBLAS and oneDNN, bf16 through oneDNN.
//
//===----------------------------------------------------------------------===//
#include "test/support/Seconds.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <omp.h>
#include <vector>

#include <cblas.h>
#include <dnnl.hpp>

namespace {

/// Seconds, the median of `rounds` after one warm-up.
double median(int rounds, const std::function<void()> &work) {
  std::vector<double> seconds;
  for (int i = 0; i <= rounds; ++i)
    seconds.push_back(zc::test::secondsOf(work));
  seconds.erase(seconds.begin());
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[rounds / 2];
}

void print(const char *bench, int threads, double value, const char *unit) {
  std::printf("{\"bench\": \"%s\", \"threads\": %d, \"value\": %.2f, \"unit\": \"%s\"}\n", bench, threads, value, unit);
}

/// Zeroed by the threads that will use it.
std::unique_ptr<float[]> allocate(size_t count) {
  std::unique_ptr<float[]> data(new float[count]);
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < count; ++i)
    data[i] = 1e-3f * float(i % 13);
  return data;
}

/// Of one thread, on as much as 16 rows of 3,072 numbers are, as often as memory's.
void secondCache() {
  const size_t count = 16 * 3072, times = 512;
  auto a = allocate(count), b = allocate(count), c = allocate(count);
  float *pa = a.get(), *pb = b.get(), *pc = c.get();
  double triad = median(7, [=] {
    for (size_t t = 0; t < times; ++t) {
#pragma omp simd
      for (size_t i = 0; i < count; ++i)
        pa[i] = pb[i] + 3.0f * pc[i];
      asm volatile("" : : : "memory"); // each time again
    }
  });
  print("cache_triad", 1, 12.0 * count * times / triad / 1e9, "GB/s");
}

void memory(int threads) {
  const size_t count = size_t(48) << 20;
  auto a = allocate(count), b = allocate(count), c = allocate(count);
  float *pa = a.get(), *pb = b.get(), *pc = c.get();
  double triad = median(7, [=] {
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < count; ++i)
      pa[i] = pb[i] + 3.0f * pc[i];
  });
  print("stream_triad", threads, 12.0 * count / triad / 1e9, "GB/s");
  double update = median(7, [=] {
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < count; ++i)
      pb[i] += 1.0f;
  });
  print("stream_update", threads, 8.0 * count / update / 1e9, "GB/s");
}

struct Shape {
  const char *name;
  int m, n, k;
};
constexpr Shape kShapes[] = {
    {"qkv", 1024, 2304, 768}, {"up", 1024, 3072, 768}, {"down", 1024, 768, 3072}, {"head", 1024, 50257, 768}};

double openBlasProduct(const Shape &s) {
  auto a = allocate(size_t(s.m) * s.k), b = allocate(size_t(s.n) * s.k), c = allocate(size_t(s.m) * s.n);
  return median(5, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s.m, s.n, s.k, 1.0f, a.get(), s.k, b.get(), s.k, 0.0f, c.get(),
                s.n);
  });
}

template <dnnl::memory::data_type type> double oneDnnProduct(const Shape &s) {
  using namespace dnnl;
  engine engine(engine::kind::cpu, 0);
  stream stream(engine);
  using Type = memory::data_type;
  using Tag = memory::format_tag;
  memory::desc a({s.m, s.k}, type, Tag::ab), b({s.k, s.n}, type, Tag::ba), c({s.m, s.n}, Type::f32, Tag::ab);
  matmul product(matmul::primitive_desc(matmul::desc(a, b, c), engine));
  class memory ma(a, engine), mb(b, engine), mc(c, engine);
  std::memset(ma.get_data_handle(), 0, a.get_size());
  std::memset(mb.get_data_handle(), 0, b.get_size());
  return median(5, [&] {
    product.execute(stream, {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}});
    stream.wait();
  });
}

void products(const char *type, int threads, double (*run)(const Shape &)) {
  double flops = 0, seconds = 0;
  for (const Shape &shape : kShapes) {
    double t = run(shape), f = 2.0 * shape.m * shape.n * shape.k;
    print((std::string("gemm_") + type + "_" + shape.name).c_str(), threads, f / t / 1e9, "GF/s");
    // A block's output projection is a third of qkv; the head occurs once, the others in each of the 12 blocks.
    double weight = shape.n == 50257 ? 1 : 12 * (shape.n == 2304 ? 4.0 / 3 : 1);
    flops += weight * f;
    seconds += weight * t;
  }
  print((std::string("gemm_") + type).c_str(), threads, flops / seconds / 1e9, "GF/s");
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  omp_set_num_threads(threads);
  memory(threads);
  if (threads == 1)
    secondCache();
  if (argc > 2 && std::strcmp(argv[2], "memory") == 0)
    return 0;
  products("fp32_openblas", threads, openBlasProduct);
  try {
    products("fp32_onednn", threads, oneDnnProduct<dnnl::memory::data_type::f32>);
    products("bf16_onednn", threads, oneDnnProduct<dnnl::memory::data_type::bf16>);
  } catch (const dnnl::error &error) {
    std::fprintf(stderr, "bench_limits: oneDNN is not measured: %s\n", error.what());
  }
  return 0;
}
