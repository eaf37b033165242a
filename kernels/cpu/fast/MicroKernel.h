//===- MicroKernel.h - a tile of a product, in registers ------------------------===//
#pragma once

#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/TilesBf16.h"

namespace zc::cpu {

/// Where a left factor's units are: (i, u) of a tile at at[i * rowStride + u / step * stepStride + u % step], with the
/// micro-kernel's step.
struct LeftUnits {
  const float *at;
  int64_t rowStride, stepStride;
};

/// c[i, j] = sum over k of a[i, k] b[k, j], or that added to c, for a tile of `rows` x `columns` elements of fp32 c.
/// Factors lie in units of 32 bits: a term in fp32, or two successive terms in bf16, which are multiplied as they are
/// and summed in fp32. The order of the sum depends on the number of terms alone.
struct MicroKernel {
  int64_t rows, columns;      ///< divisors of kTileRows and kTileColumns
  int64_t terms;              ///< of a unit: 1 or 2
  int64_t step;               ///< sums have a multiple of so many units
  const bf16::Engine *engine; ///< of two terms; else null
  void (*runF32)(const LeftUnits &left, const float *b, int64_t units, float *c, int64_t stride, bool adds);

  /// Unit (u, j) of b is at b[u * columns + j].
  void run(const LeftUnits &left, const float *b, int64_t units, float *c, int64_t stride, bool adds) const {
    if (!engine)
      return runF32(left, b, units, c, stride, adds);
    engine->multiply({{reinterpret_cast<const char *>(left.at), left.rowStride * 4, left.stepStride * 4},
                      reinterpret_cast<const uint32_t *>(b),
                      rows,
                      columns,
                      units,
                      c,
                      stride,
                      adds});
  }
  int64_t units(int64_t n) const { return roundUp(quotientUp(n, terms), step); }
};

/// For factors of `type`: in bf16 where the CPU multiplies it (TilesBf16.h), else for factors widened to fp32.
/// f16 is widened everywhere: no CPU without AMX sums its products in fp32 faster.
MicroKernel microKernelOf(DType type);
/// One of heads, whose panels all have kTileColumns.
MicroKernel microKernelOf(const bf16::Engine &engine);

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
