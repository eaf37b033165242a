// GEMM / batched matmul / conv timing of one CPU math library; one JSON line per measurement.
// Build one binary per library (see gemmbench.py):  -DLIB_CBLAS | -DLIB_MKL | -DLIB_DNNL
//   usage: gemmbench NAME THREADS [f32] [bf16] [batch] [conv]
// Row-major product C[m,n] = A[m,k] * B[k,n]; NT: B is stored [n,k]; TN: A is stored [k,m].
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <immintrin.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>
#if defined(LIB_MKL)
#include <mkl.h>
#elif defined(LIB_CBLAS)
#ifdef SCIPY
#include "cblas.h"
#define cblas_sgemm scipy_cblas_sgemm
#define cblas_sgemm_batch_strided scipy_cblas_sgemm_batch_strided
#define openblas_set_num_threads scipy_openblas_set_num_threads
#else
#include <cblas.h>
#endif
#elif defined(LIB_DNNL)
#include <oneapi/dnnl/dnnl.hpp>
#endif
static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void *al(size_t n) {
  n = (n + (2 << 20) - 1) >> 21 << 21;
  void *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(p, n, MADV_HUGEPAGE);
  memset(p, 0, n);
  return p;
}
static float *mk(size_t n, unsigned s) {
  float *p = (float *)al(n * 4);
  for (size_t i = 0; i < n; i++) {
    s = s * 1664525u + 1013904223u;
    p[i] = (float)(int)(s >> 9) * 0x1p-22f - 1.f;
  }
  return p;
}
static void fr(void *p, size_t n) { munmap(p, (n + (2 << 20) - 1) >> 21 << 21); }
static int T;
static const char *NAME;
static double peak;
// best of >= reps runs (one warm-up)
static double best(const std::function<void()> &f, int reps = 3) {
  f();
  double b = 1e9, tot = 0;
  int k = 0;
  while (k < reps || (tot < 0.1 && k < 200)) {
    double t = now();
    f();
    t = now() - t;
    b = std::min(b, t);
    tot += t;
    k++;
  }
  return b;
}
static void out(const char *what, const char *shape, const char *lay, double fl, double t, double extra = 0,
                double err = 0) {
  double la[1];
  getloadavg(la, 1);
  printf("{\"lib\":\"%s\",\"T\":%d,\"what\":\"%s\",\"shape\":\"%s\",\"lay\":\"%s\",\"ms\":%.4f,\"gfs\":%.1f,\"peak\":%."
         "1f,\"extra_ms\":%.3f,\"err\":%.2g,\"load\":%.2f}\n",
         NAME, T, what, shape, lay, t * 1e3, fl / t / 1e9, peak, extra * 1e3, err, la[0]);
  fflush(stdout);
}
static double fmapeak() { // register-only AVX-512 FMA loop on T threads
  const long N = 4000000;
  volatile float sink = 0;
  auto run = [&] {
    float s = 0;
#pragma omp parallel reduction(+ : s) num_threads(T)
    {
      __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f), a0 = y, a1 = y, a2 = y, a3 = y, a4 = y, a5 = y,
             a6 = y, a7 = y, a8 = y, a9 = y, a10 = y, a11 = y;
#define F(q) "vfmadd213ps %[y], %[x], %[" #q "]\n"
      for (long r = 0; r < N; r++)
        asm volatile(F(a0) F(a1) F(a2) F(a3) F(a4) F(a5) F(a6) F(a7) F(a8) F(a9) F(a10) F(a11)
                     : [a0] "+v"(a0), [a1] "+v"(a1), [a2] "+v"(a2), [a3] "+v"(a3), [a4] "+v"(a4), [a5] "+v"(a5),
                       [a6] "+v"(a6), [a7] "+v"(a7), [a8] "+v"(a8), [a9] "+v"(a9), [a10] "+v"(a10), [a11] "+v"(a11)
                     : [x] "v"(x), [y] "v"(y));
#undef F
      alignas(64) float r[16];
      _mm512_store_ps(r, a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11);
      s += r[0];
    }
    sink = s;
  };
  return 12.0 * 32 * N * T / best(run, 5) / 1e9;
}
struct S {
  int m, k, n;
};
static const S shapes[] = {{1024, 768, 2304}, {1024, 768, 3072},  {1024, 3072, 768},
                           {512, 768, 3072},  {2048, 2048, 2048}, {1024, 768, 50257}};
static std::string nm(S s) { return std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n); }
// sampled check against double accumulation
static double check(const float *A, const float *B, const float *C, S s, bool ta, bool tb) {
  double e = 0;
  unsigned r = 7;
  for (int q = 0; q < 64; q++) {
    r = r * 1664525u + 1013904223u;
    size_t i = (r >> 8) % s.m;
    r = r * 1664525u + 1013904223u;
    size_t j = (r >> 8) % s.n;
    double d = 0;
    for (int p = 0; p < s.k; p++)
      d += (double)(ta ? A[(size_t)p * s.m + i] : A[i * s.k + p]) * (tb ? B[j * s.k + p] : B[(size_t)p * s.n + j]);
    e = std::max(e, std::fabs(d - C[i * s.n + j]));
  }
  return e;
}
static bool has(int c, char **v, const char *k) {
  for (int i = 3; i < c; i++)
    if (!strcmp(v[i], k))
      return true;
  return false;
}
[[maybe_unused]] static uint16_t bf(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
[[maybe_unused]] static float unbf(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static const int NB = 48;
#if defined(LIB_CBLAS) || defined(LIB_MKL)
static void setT(int t) {
#ifdef LIB_MKL
  mkl_set_dynamic(0);
  mkl_set_num_threads(t);
#elif defined(BLIS)
  (void)t;
#else
  openblas_set_num_threads(t);
#endif
}
#define RM CblasRowMajor
#define NoT CblasNoTrans
#define Tr CblasTrans
static void f32() {
  for (S s : shapes) {
    float *A = mk((size_t)s.m * s.k, 1), *B = mk((size_t)s.k * s.n, 2), *C = (float *)al((size_t)s.m * s.n * 4);
    for (int l = 0; l < 3; l++) {
      bool ta = l == 2, tb = l == 1;
      auto f = [&] {
        cblas_sgemm(RM, ta ? Tr : NoT, tb ? Tr : NoT, s.m, s.n, s.k, 1.f, A, ta ? s.m : s.k, B, tb ? s.k : s.n, 0.f, C,
                    s.n);
      };
      double t = best(f);
      out("f32", nm(s).c_str(),
          l == 0   ? "NN"
          : l == 1 ? "NT"
                   : "TN",
          2.0 * s.m * s.k * s.n, t, 0, check(A, B, C, s, ta, tb));
    }
    fr(A, (size_t)s.m * s.k * 4);
    fr(B, (size_t)s.k * s.n * 4);
    fr(C, (size_t)s.m * s.n * 4);
  }
}
static void batch() {
  struct {
    int m, k, n;
    bool tb;
  } q[] = {{256, 64, 256, true}, {256, 256, 64, false}};
  for (auto z : q) {
    size_t a = (size_t)z.m * z.k, b = (size_t)z.k * z.n, c = (size_t)z.m * z.n;
    float *A = mk(a * NB, 1), *B = mk(b * NB, 2), *C = (float *)al(c * NB * 4);
    S s{z.m, z.k, z.n};
    std::string n = "48x" + nm(s);
    double fl = 2.0 * NB * z.m * z.k * z.n;
    const char *lay = z.tb ? "NT" : "NN";
    auto one = [&](int i) {
      cblas_sgemm(RM, NoT, z.tb ? Tr : NoT, z.m, z.n, z.k, 1.f, A + a * i, z.k, B + b * i, z.tb ? z.k : z.n, 0.f,
                  C + c * i, z.n);
    };
    setT(T);
    double t = best([&] {
      for (int i = 0; i < NB; i++)
        one(i);
    });
    out("batch-loop", n.c_str(), lay, fl, t, 0,
        check(A + a * (NB - 1), B + b * (NB - 1), C + c * (NB - 1), s, false, z.tb));
    memset(C, 0, c * NB * 4);
    if (T > 1) { // parallel over the batch, library serial inside
      setT(1);
      t = best([&] {
#pragma omp parallel for num_threads(T) schedule(static)
        for (int i = 0; i < NB; i++)
          one(i);
      });
      out("batch-omp", n.c_str(), lay, fl, t, 0,
          check(A + a * (NB - 1), B + b * (NB - 1), C + c * (NB - 1), s, false, z.tb));
      memset(C, 0, c * NB * 4);
      setT(T);
    }
#if defined(LIB_MKL) || defined(SCIPY)
    t = best([&] {
      cblas_sgemm_batch_strided(RM, NoT, z.tb ? Tr : NoT, z.m, z.n, z.k, 1.f, A, z.k, a, B, z.tb ? z.k : z.n, b, 0.f, C,
                                z.n, c, NB);
    });
    out("batch-strided", n.c_str(), lay, fl, t, 0,
        check(A + a * (NB - 1), B + b * (NB - 1), C + c * (NB - 1), s, false, z.tb));
#endif
    fr(A, a * NB * 4);
    fr(B, b * NB * 4);
    fr(C, c * NB * 4);
  }
}
static void bf16() {
#ifdef LIB_MKL
  for (S s : shapes) {
    size_t na = (size_t)s.m * s.k, nb = (size_t)s.k * s.n;
    float *A = mk(na, 1), *B = mk(nb, 2), *C = (float *)al((size_t)s.m * s.n * 4);
    MKL_BF16 *a = (MKL_BF16 *)al(na * 2), *b = (MKL_BF16 *)al(nb * 2);
    for (size_t i = 0; i < na; i++) {
      a[i] = bf(A[i]);
      A[i] = unbf(a[i]);
    }
    for (size_t i = 0; i < nb; i++) {
      b[i] = bf(B[i]);
      B[i] = unbf(b[i]);
    }
    for (int l = 0; l < 3; l++) {
      bool ta = l == 2, tb = l == 1;
      auto f = [&] {
        cblas_gemm_bf16bf16f32(RM, ta ? Tr : NoT, tb ? Tr : NoT, s.m, s.n, s.k, 1.f, a, ta ? s.m : s.k, b,
                               tb ? s.k : s.n, 0.f, C, s.n);
      };
      double t = best(f);
      out("bf16-f32", nm(s).c_str(),
          l == 0   ? "NN"
          : l == 1 ? "NT"
                   : "TN",
          2.0 * s.m * s.k * s.n, t, 0, check(A, B, C, s, ta, tb));
    }
    fr(A, na * 4);
    fr(B, nb * 4);
    fr(C, (size_t)s.m * s.n * 4);
    fr(a, na * 2);
    fr(b, nb * 2);
  }
#endif
}
static void conv() { // im2col + sgemm, NCHW, 3x3 pad 1
  for (S s : {S{64, 56, 64}, S{256, 14, 256}}) {
    const int N = 4, C = s.m, H = s.k, O = s.n, P = H * H, K = C * 9;
    float *X = mk((size_t)N * C * P, 1), *W = mk((size_t)O * K, 2), *Y = (float *)al((size_t)N * O * P * 4),
          *col = (float *)al((size_t)K * P * 4);
    auto f = [&] {
      for (int n = 0; n < N; n++) {
#pragma omp parallel for num_threads(T) schedule(static)
        for (int r = 0; r < K; r++) {
          int c = r / 9, dy = r % 9 / 3 - 1, dx = r % 3 - 1;
          const float *x = X + ((size_t)n * C + c) * P;
          float *d = col + (size_t)r * P;
          for (int y = 0; y < H; y++)
            for (int w = 0; w < H; w++) {
              int yy = y + dy, xx = w + dx;
              d[y * H + w] = (yy < 0 || yy >= H || xx < 0 || xx >= H) ? 0.f : x[yy * H + xx];
            }
        }
        cblas_sgemm(RM, NoT, NoT, O, P, K, 1.f, W, K, col, P, 0.f, Y + (size_t)n * O * P, P);
      }
    };
    out("conv3x3-im2col", ("4x" + std::to_string(C) + "x" + std::to_string(H) + "^2").c_str(), "nchw",
        2.0 * N * O * P * K, best(f));
    fr(X, (size_t)N * C * P * 4);
    fr(W, (size_t)O * K * 4);
    fr(Y, (size_t)N * O * P * 4);
    fr(col, (size_t)K * P * 4);
  }
}
#else
using namespace dnnl;
typedef memory::data_type dt;
typedef memory::format_tag tag;
typedef memory::desc md;
static engine *eng;
static stream *st;
static void setT(int) {}
static matmul::primitive_desc mpd(const md &a, const md &b, const md &c) {
#if DNNL_VERSION_MAJOR >= 3
  return matmul::primitive_desc(*eng, a, b, c);
#else
  return matmul::primitive_desc(matmul::desc(a, b, c), *eng);
#endif
}
static void gemm(bool bfl, bool any) {
  dt d = bfl ? dt::bf16 : dt::f32;
  for (S s : shapes) {
    size_t na = (size_t)s.m * s.k, nb = (size_t)s.k * s.n;
    int es = bfl ? 2 : 4;
    float *A = mk(na, 1), *B = mk(nb, 2), *C = (float *)al((size_t)s.m * s.n * 4);
    void *a = A, *b = B;
    if (bfl) {
      a = al(na * 2);
      b = al(nb * 2);
      uint16_t *x = (uint16_t *)a, *y = (uint16_t *)b;
      for (size_t i = 0; i < na; i++) {
        x[i] = bf(A[i]);
        A[i] = unbf(x[i]);
      }
      for (size_t i = 0; i < nb; i++) {
        y[i] = bf(B[i]);
        B[i] = unbf(y[i]);
      }
    }
    for (int l = 0; l < 3; l++) {
      bool ta = l == 2, tb = l == 1;
      md am({s.m, s.k}, d, ta ? tag::ba : tag::ab), bm({s.k, s.n}, d, tb ? tag::ba : tag::ab),
          cm({s.m, s.n}, dt::f32, tag::ab);
      auto pd = mpd(am, any ? md({s.k, s.n}, d, tag::any) : bm, cm);
      memory ma(am, *eng, a), mb(bm, *eng, b), mc(cm, *eng, C), mw = mb;
      double re = 0;
      if (pd.weights_desc() != bm) {
        mw = memory(pd.weights_desc(), *eng);
        reorder r(mb, mw);
        re = best([&] {
          r.execute(*st, mb, mw);
          st->wait();
        });
      }
      matmul p(pd);
      std::unordered_map<int, memory> ar{{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mw}, {DNNL_ARG_DST, mc}};
      double t = best([&] {
        p.execute(*st, ar);
        st->wait();
      });
      std::string w = std::string(bfl ? "bf16-f32" : "f32") + (any ? "-any" : "");
      out(w.c_str(), nm(s).c_str(),
          l == 0   ? "NN"
          : l == 1 ? "NT"
                   : "TN",
          2.0 * s.m * s.k * s.n, t, re, check(A, B, C, s, ta, tb));
      if (getenv("IMPL"))
        fprintf(stderr, "%s %s %s: %s\n", NAME, w.c_str(), nm(s).c_str(), pd.impl_info_str());
    }
    if (bfl) {
      fr(a, na * es);
      fr(b, nb * es);
    }
    fr(A, na * 4);
    fr(B, nb * 4);
    fr(C, (size_t)s.m * s.n * 4);
  }
}
static void f32() {
  gemm(false, false);
  gemm(false, true);
}
static void bf16() {
  gemm(true, false);
  gemm(true, true);
}
static void batch() {
  struct {
    int m, k, n;
    bool tb;
  } q[] = {{256, 64, 256, true}, {256, 256, 64, false}};
  for (auto z : q)
    for (int bfl = 0; bfl < 2; bfl++) {
      size_t a = (size_t)z.m * z.k, b = (size_t)z.k * z.n, c = (size_t)z.m * z.n;
      S s{z.m, z.k, z.n};
      dt d = bfl ? dt::bf16 : dt::f32;
      float *A = mk(a * NB, 1), *B = mk(b * NB, 2), *C = (float *)al(c * NB * 4);
      void *pa = A, *pb = B;
      if (bfl) {
        uint16_t *x = (uint16_t *)al(a * NB * 2), *y = (uint16_t *)al(b * NB * 2);
        for (size_t i = 0; i < a * NB; i++)
          x[i] = bf(A[i]), A[i] = unbf(x[i]);
        for (size_t i = 0; i < b * NB; i++)
          y[i] = bf(B[i]), B[i] = unbf(y[i]);
        pa = x;
        pb = y;
      }
      md am({NB, z.m, z.k}, d, tag::abc), bm({NB, z.k, z.n}, d, z.tb ? tag::acb : tag::abc),
          cm({NB, z.m, z.n}, dt::f32, tag::abc);
      auto pd = mpd(am, bm, cm);
      matmul p(pd);
      memory ma(am, *eng, pa), mb(bm, *eng, pb), mc(cm, *eng, C);
      std::unordered_map<int, memory> ar{{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}};
      double t = best([&] {
        p.execute(*st, ar);
        st->wait();
      });
      out(bfl ? "batch-bf16" : "batch-strided", ("48x" + nm(s)).c_str(), z.tb ? "NT" : "NN", 2.0 * NB * z.m * z.k * z.n,
          t, 0, check(A + a * (NB - 1), B + b * (NB - 1), C + c * (NB - 1), s, false, z.tb));
      if (getenv("IMPL"))
        fprintf(stderr, "%s batch %d: %s\n", NAME, bfl, pd.impl_info_str());
    }
}
static void conv() {
  for (S s : {S{64, 56, 64}, S{256, 14, 256}})
    for (int any = 0; any < 2; any++) {
      const int N = 4, C = s.m, H = s.k, O = s.n;
      tag dtag = any ? tag::any : tag::nchw;
      md x({N, C, H, H}, dt::f32, dtag), w({O, C, 3, 3}, dt::f32, any ? tag::any : tag::oihw),
          y({N, O, H, H}, dt::f32, dtag);
#if DNNL_VERSION_MAJOR >= 3
      convolution_forward::primitive_desc pd(*eng, prop_kind::forward_training, algorithm::convolution_auto, x, w, y,
                                             {1, 1}, {1, 1}, {1, 1});
#else
      convolution_forward::primitive_desc pd(convolution_forward::desc(prop_kind::forward_training,
                                                                       algorithm::convolution_auto, x, w, y, {1, 1},
                                                                       {1, 1}, {1, 1}),
                                             *eng);
#endif
      memory mx(pd.src_desc(), *eng), mw(pd.weights_desc(), *eng), my(pd.dst_desc(), *eng);
      convolution_forward p(pd);
      memset(mx.get_data_handle(), 0, pd.src_desc().get_size());
      memset(mw.get_data_handle(), 0, pd.weights_desc().get_size());
      std::unordered_map<int, memory> ar{{DNNL_ARG_SRC, mx}, {DNNL_ARG_WEIGHTS, mw}, {DNNL_ARG_DST, my}};
      out("conv3x3", ("4x" + std::to_string(C) + "x" + std::to_string(H) + "^2").c_str(), any ? "any" : "nchw",
          2.0 * N * O * H * H * C * 9, best([&] {
            p.execute(*st, ar);
            st->wait();
          }));
      if (getenv("IMPL"))
        fprintf(stderr, "%s conv any=%d: %s\n", NAME, any, pd.impl_info_str());
    }
}
#endif
int main(int c, char **v) {
  NAME = v[1];
  T = atoi(v[2]);
  omp_set_num_threads(T);
  usleep(300000); // let a pthread pool started by the library go to sleep
  peak = fmapeak();
#ifdef LIB_DNNL
  eng = new engine(engine::kind::cpu, 0);
  st = new stream(*eng);
#endif
  setT(T);
  out("fmapeak", "-", "-", peak * 1e9, 1);
  if (has(c, v, "f32"))
    f32();
  if (has(c, v, "bf16"))
    bf16();
  if (has(c, v, "batch"))
    batch();
  if (has(c, v, "conv"))
    conv();
}
