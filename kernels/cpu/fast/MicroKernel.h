//===- MicroKernel.h - a tile of a product, in registers ------------------------===//
#pragma once

#include "kernels/cpu/Tiles.h"

namespace zc::cpu {

/// c[i, j] = sum over k of a[i, k] b[k, j], or that added to c, for a tile of `rows` x `columns` elements of fp32 c.
/// Factors lie in units of 32 bits: a term in fp32, or two successive terms in bf16, which are multiplied as they are
/// and summed in fp32. The order of the sum depends on the number of terms alone.
struct MicroKernel {
  int64_t rows, columns; ///< divisors of kTileRows and kTileColumns
  int64_t terms;         ///< of a unit: 1 or 2
  /// Unit (i, u) of a is at a[i * rowStride + u * unitStride]; of b, at b[u * columns + j].
  void (*run)(const float *a, int64_t rowStride, int64_t unitStride, const float *b, int64_t units, float *c,
              int64_t stride, bool adds);

  int64_t units(int64_t n) const { return (n + terms - 1) / terms; }
};

/// For factors of `type`: in bf16 where the CPU multiplies it (AVX512_BF16), else for factors widened to fp32.
/// f16 is widened everywhere: no CPU without AMX sums its products in fp32 faster.
MicroKernel microKernelOf(DType type);

/// The bf16 one; null where the CPU has no such instructions.
const MicroKernel *bf16MicroKernel();

// Panels: what a right factor is rearranged into, `columns` of the product each, zeros beyond the source. `staging`:
// kTileColumns rows of the source in fp32, of sources that have to be widened.

/// Rows of a source, [rows, width], `stride` elements apart.
struct SourceRows {
  const void *at;
  int64_t stride;
};

/// The source transposed: its rows are the product's columns. A panel has units(width) * columns units.
void packTransposed(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *panels,
                    float *staging);
/// The source: its rows are the product's terms. A panel has units(rows rounded up to kTileColumns) * columns units.
void packPanels(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *panels,
                float *staging);
/// Left factors: rows of units(width), to rows `stride` units apart, and rows of zeros up to a multiple of kTileRows.
void packRows(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *to,
              int64_t stride);

} // namespace zc::cpu
