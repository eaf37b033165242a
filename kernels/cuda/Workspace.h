//===- Workspace.h - bytes that the GPU's kernels work in ----------------------===//
//
// Formulas of shapes, used by the kernels that take the bytes and by the compiler that plans them, on machines without
// CUDA too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/MoveShapes.h"
#include "kernels/cpu/Shapes.h"

namespace zc::cuda {

/// Of a radix sort of n pairs of 32-bit numbers: two histograms and a look-back per tile. CUB is asked when it sorts,
/// and refuses to with less.
inline int64_t sortBytes(int64_t n) { return 64 * 1024 + 8 * n; }

/// Into how many parts rows are cut for sums over them.
constexpr int64_t rowParts(int64_t rows) { return rows < 64 ? 1 : rows < 4096 ? rows / 64 : 64; }

/// Results that one block of a column sum has, a thread each.
constexpr int kReduceColumns = 128;

/// How a reduction is cut: each of `results` elements is made of `parts` sums over n / parts elements, enough to fill a
/// GPU, none shorter than 64 (columns) or 4096 elements.
struct ReduceCut {
  int64_t results, n, parts;
  int64_t columnBlocks; ///< blocks for all results where neighbouring threads have neighbouring results; else 0
  explicit ReduceCut(const cpu::ReduceShape &shape);
  /// Sums have 8 bytes, whatever the element type.
  int64_t bytes() const { return 8 * results * parts; }
};

inline int64_t gatherGradBytes(const cpu::GatherShape &s) {
  return 4 * s.count * static_cast<int64_t>(sizeof(int32_t)) + sortBytes(s.count);
}
inline int64_t crossEntropyBytes(const cpu::CrossEntropyShape &s) {
  return s.rows * static_cast<int64_t>(sizeof(double));
}
inline int64_t crossEntropyGradBytes(const cpu::CrossEntropyShape &) { return sizeof(double); }
/// `sums` over the rows: of the scale's gradient, and the bias'.
inline int64_t normGradBytes(const cpu::NormShape &s, int64_t sums) {
  return sums * rowParts(s.rows) * s.n * static_cast<int64_t>(sizeof(double));
}

} // namespace zc::cuda
