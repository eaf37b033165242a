#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <immintrin.h>
#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
template <class F> double best(F f, int n = 25) {
  double b = 1e9;
  for (int i = 0; i < n; i++) {
    double t = now();
    f();
    t = now() - t;
    b = std::min(b, t);
  }
  return b;
}
static void *al(size_t n) {
  void *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(p, n, MADV_HUGEPAGE);
  memset(p, 0, n);
  return p;
}
int main() {
  size_t N = 96ull << 20;
  float *a = (float *)al(N * 4), *b = (float *)al(N * 4), *d = (float *)al(N * 4), *g = (float *)al(N * 4);
  unsigned short *h = (unsigned short *)al(N * 2), *gh = (unsigned short *)al(N * 2);
  for (size_t i = 0; i < N; i++) {
    a[i] = 1e-3f * (i % 97);
    g[i] = 1e-3f * ((int)(i % 13) - 6);
    gh[i] = 0x3a00 + (i % 64);
  }
  volatile float sink;
  for (int T = 1; T <= 2; T++) {
    omp_set_num_threads(T);
    double t;
    t = best([&] {
      float s = 0;
#pragma omp parallel reduction(+ : s)
      {
        __m512 x[8];
        for (auto &q : x)
          q = _mm512_setzero_ps();
#pragma omp for schedule(static)
        for (size_t i = 0; i < N; i += 128) {
#pragma GCC unroll 8
          for (int k = 0; k < 8; k++)
            x[k] = _mm512_add_ps(x[k], _mm512_load_ps(a + i + 16 * k));
        }
        for (auto q : x)
          s += _mm512_reduce_add_ps(q);
      }
      sink = s;
    });
    printf("T%d read %.1f GB/s\n", T, N * 4 / t / 1e9);
    t = best([&] {
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < N; i += 16)
        _mm512_stream_ps(b + i, _mm512_set1_ps(0.f));
    });
    printf("T%d NTwrite %.1f\n", T, N * 4 / t / 1e9);
    t = best([&] {
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < N; i += 16)
        _mm512_stream_ps(b + i, _mm512_load_ps(a + i));
    });
    printf("T%d copyNT r+w %.1f\n", T, N * 8 / t / 1e9);
    t = best([&] {
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < N; i += 16)
        _mm512_stream_ps(d + i, _mm512_fmadd_ps(_mm512_set1_ps(3.f), _mm512_load_ps(b + i), _mm512_load_ps(a + i)));
    });
    printf("T%d triadNT %.1f\n", T, N * 12 / t / 1e9);
    t = best([&] {
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < N; i += 16)
        _mm512_store_ps(b + i, _mm512_add_ps(_mm512_set1_ps(0.f), _mm512_load_ps(b + i)));
    });
    printf("T%d inplace-update r+w %.1f\n", T, N * 8 / t / 1e9);
    memset(b, 0, N * 4);
    memset(d, 0, N * 4);
    __m512 b1 = _mm512_set1_ps(.9f), b1c = _mm512_set1_ps(.1f), b2 = _mm512_set1_ps(.999f), b2c = _mm512_set1_ps(.001f),
           eps = _mm512_set1_ps(1e-8f), st = _mm512_set1_ps(-1e-4f), wd = _mm512_set1_ps(1 - 1e-6f);
    auto adam = [&](bool bf) {
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < N; i += 32) {
        __m512 pp[2];
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
          size_t j = i + 16 * k;
          __m512 gg = bf ? _mm512_castsi512_ps(
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_load_si256((__m256i *)(gh + j))), 16))
                         : _mm512_load_ps(g + j);
          __m512 m = _mm512_load_ps(b + j), v = _mm512_load_ps(d + j), p = _mm512_load_ps(a + j);
          m = _mm512_fmadd_ps(m, b1, _mm512_mul_ps(gg, b1c));
          v = _mm512_fmadd_ps(v, b2, _mm512_mul_ps(_mm512_mul_ps(gg, gg), b2c));
          __m512 den = _mm512_add_ps(_mm512_sqrt_ps(v), eps);
          p = _mm512_mul_ps(p, wd);
          p = _mm512_fmadd_ps(_mm512_div_ps(m, den), st, p);
          _mm512_store_ps(b + j, m);
          _mm512_store_ps(d + j, v);
          _mm512_store_ps(a + j, p);
          pp[k] = p;
        }
        _mm512_stream_si512((__m512i *)(h + i), (__m512i)_mm512_cvtne2ps_pbh(pp[1], pp[0]));
      }
    };
    t = best([&] { adam(false); });
    printf("T%d Adam fp32g 30B %.1f GB/s %.3f Gp/s\n", T, N * 30 / t / 1e9, N / t / 1e9);
    t = best([&] { adam(true); });
    printf("T%d Adam bf16g 28B %.1f GB/s %.3f Gp/s\n", T, N * 28 / t / 1e9, N / t / 1e9);
    // compute-bound (in L2):
    size_t M = 16384;
    t = best(
        [&] {
#pragma omp parallel
          for (int r = 0; r < 50; r++) {
            int id = omp_get_thread_num();
            size_t o = id * M;
            for (size_t i = o; i < o + M; i += 16) {
              __m512 gg = _mm512_load_ps(g + i), m = _mm512_load_ps(b + i), v = _mm512_load_ps(d + i),
                     p = _mm512_load_ps(a + i);
              m = _mm512_fmadd_ps(m, b1, _mm512_mul_ps(gg, b1c));
              v = _mm512_fmadd_ps(v, b2, _mm512_mul_ps(_mm512_mul_ps(gg, gg), b2c));
              __m512 den = _mm512_add_ps(_mm512_sqrt_ps(v), eps);
              p = _mm512_fmadd_ps(_mm512_div_ps(m, den), st, p);
              _mm512_store_ps(b + i, m);
              _mm512_store_ps(d + i, v);
              _mm512_store_ps(a + i, p);
            }
          }
        },
        200);
    printf("T%d Adam in-L2 compute bound %.3f Gp/s\n", T, 50.0 * M * T / t / 1e9);
    fflush(stdout);
  }
}
