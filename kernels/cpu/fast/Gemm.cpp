#include "kernels/cpu/fast/Gemm.h"

#include <algorithm>
#include <array>
#include <cblas.h>
#include <dnnl.h>
#include <hwy/targets.h>
#include <omp.h>
#include <string_view>

namespace zc::cpu {
namespace {

bool openblasFits() {
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0)
    return true;
  std::string_view core = openblas_get_corename();
  constexpr std::array<std::string_view, 3> wide = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  return std::find(wide.begin(), wide.end(), core) != wide.end();
}

bool usesOpenblas() {
  static const bool fits = openblasFits();
  return fits;
}

/// Both libraries open a team of omp_get_max_threads() unless they are inside one already. The setting is the calling
/// thread's own.
class SingleThread {
public:
  SingleThread() : before(omp_in_parallel() ? 0 : omp_get_max_threads()) {
    if (before > 1)
      omp_set_num_threads(1);
  }
  ~SingleThread() {
    if (before > 1)
      omp_set_num_threads(before);
  }
  SingleThread(const SingleThread &) = delete;
  SingleThread &operator=(const SingleThread &) = delete;

private:
  int before;
};

} // namespace

void gemm(bool transA, bool transB, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
          const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  if (m == 0 || n == 0)
    return;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
    return;
  }
  SingleThread single;
  if (usesOpenblas())
    cblas_sgemm(CblasRowMajor, transA ? CblasTrans : CblasNoTrans, transB ? CblasTrans : CblasNoTrans,
                static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k), alpha, a,
                static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
  else
    dnnl_sgemm(transA ? 'T' : 'N', transB ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

const char *gemmBackend() { return usesOpenblas() ? "openblas" : "onednn"; }

} // namespace zc::cpu
