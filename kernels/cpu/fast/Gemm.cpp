#include "kernels/cpu/fast/Gemm.h"
#include "base/CallMemory.h"

#include <algorithm>
#include <array>
#include <cblas.h>
#include <dnnl.h>
#include <hwy/targets.h>
#include <omp.h>

namespace zc::cpu {
namespace {

VectorCpu thisCpu() {
  const int64_t targets = hwy::SupportedTargets();
  VectorCpu cpu{(targets & HWY_AVX2) != 0, (targets & HWY_AVX3) != 0, false};
#if HWY_ARCH_X86
  cpu.isAmd = __builtin_cpu_is("amd") != 0;
#endif
  return cpu;
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

/// Both libraries keep copies of blocks of the factors, as long as the product is on one side: 64 MB of a thread for
/// the rows of a vocabulary in OpenBLAS, 15 MB for as many columns in oneDNN. Cut there they have 3 and 5 MB, and take
/// as long. These are multiples of what their kernels have in registers, so that bits stay.
constexpr int64_t kRowsOfOpenblas = 1536, kColumnsOfDnnl = 3072;

/// Row major operands of a product, and the elements between their stored rows.
struct Product {
  bool transA, transB;
  int64_t m, n, k;
  float alpha;
  const float *a;
  int64_t lda;
  const float *b;
  int64_t ldb;
  float beta;
  float *c;
  int64_t ldc;

  Product rows(int64_t begin, int64_t end) const {
    Product part = *this;
    part.m = end - begin;
    part.a += transA ? begin : begin * lda;
    part.c += begin * ldc;
    return part;
  }
  Product columns(int64_t begin, int64_t end) const {
    Product part = *this;
    part.n = end - begin;
    part.b += transB ? begin * ldb : begin;
    part.c += begin;
    return part;
  }
};

void byOpenblas(const Product &p) {
  cblas_sgemm(CblasRowMajor, p.transA ? CblasTrans : CblasNoTrans, p.transB ? CblasTrans : CblasNoTrans,
              static_cast<blasint>(p.m), static_cast<blasint>(p.n), static_cast<blasint>(p.k), p.alpha, p.a,
              static_cast<blasint>(p.lda), p.b, static_cast<blasint>(p.ldb), p.beta, p.c, static_cast<blasint>(p.ldc));
}

void byDnnl(const Product &p) {
  // Kernels that it generates and keeps, whenever a product is the first of its kind.
  CallMemory::Pause pause;
  dnnl_sgemm(p.transA ? 'T' : 'N', p.transB ? 'T' : 'N', p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c,
             p.ldc);
}

} // namespace

bool openblasFits(std::string_view core, const VectorCpu &cpu) {
  constexpr std::array<std::string_view, 3> wide = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  constexpr std::array<std::string_view, 3> narrow = {"Haswell", "Zen", "Excavator"}; // AVX2
  auto isOf = [&](const auto &cores) { return std::find(cores.begin(), cores.end(), core) != cores.end(); };
  if (cpu.hasAvx512)
    return !cpu.isAmd && isOf(wide);
  return !cpu.hasAvx2 || isOf(narrow) || isOf(wide);
}

GemmLibrary fittingLibrary() {
  static const GemmLibrary fitting =
      openblasFits(openblas_get_corename(), thisCpu()) ? GemmLibrary::openblas : GemmLibrary::onednn;
  return fitting;
}

void gemm(GemmLibrary library, bool transA, bool transB, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  if (m == 0 || n == 0)
    return;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
    return;
  }
  SingleThread single;
  const Product whole{transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc};
  if (library == GemmLibrary::openblas)
    for (int64_t i = 0; i < m; i += kRowsOfOpenblas)
      byOpenblas(whole.rows(i, std::min(m, i + kRowsOfOpenblas)));
  else
    for (int64_t j = 0; j < n; j += kColumnsOfDnnl)
      byDnnl(whole.columns(j, std::min(n, j + kColumnsOfDnnl)));
}

std::string describeLibraries() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words.
  std::string config = openblas_get_config();
  size_t end = config.find(' ');
  end = end == std::string::npos ? end : config.find(' ', end + 1);
  const dnnl_version_t *version = dnnl_version();
  return config.substr(0, end) + " " + openblas_get_corename() + ", oneDNN " + std::to_string(version->major) + "." +
         std::to_string(version->minor) + "." + std::to_string(version->patch);
}

} // namespace zc::cpu
