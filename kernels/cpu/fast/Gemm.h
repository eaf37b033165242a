//===- Gemm.h - fp32 matrix products on the calling thread --------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zc::cpu {

enum class GemmLibrary : uint8_t { openblas, onednn };
/// What serves products of which nothing else is known.
///
/// OpenBLAS where its kernels fit the CPU. Debian's 0.3.21 does not know CPUs newer than itself: on a Zen 5 it picks
/// its AVX2 kernels (measured there, GF/s per core: OpenBLAS 123-129, oneDNN 230-251, of 256 at peak), a Zen 4 it takes
/// for an Intel one (96-107 and 107-114 at GPT-2 124M's shapes). On an Emerald Rapids it picks those of a Prescott,
/// with SSE3. So where the CPU has AVX-512 and is AMD's, or OpenBLAS chose a core of less than the CPU has, oneDNN's
/// sgemm is used. On Xeons that it knows the two are within 5 %.
GemmLibrary fittingLibrary();

/// What of a CPU decides that.
struct VectorCpu {
  bool hasAvx2, hasAvx512, isAmd;
};
/// Are OpenBLAS's kernels of `core` the best that it has, and good, for such a CPU?
bool openblasFits(std::string_view core, const VectorCpu &cpu);

/// C = alpha op(A) op(B) + beta C; row major; op(A) is m x k, op(B) k x n; lda, ldb, ldc: elements between stored rows.
/// Runs on the calling thread alone, so that teams are ours and ranks do not wait for each other in the library. The
/// bits of C depend on the shape and the machine only. What the libraries work in is theirs, 5 MB of each thread at
/// most: they take none.
void gemm(GemmLibrary library, bool transA, bool transB, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/// Versions of both, and the core that OpenBLAS takes this CPU for.
std::string describeLibraries();

} // namespace zc::cpu
