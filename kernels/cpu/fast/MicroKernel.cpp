// The tile of an fp32 product, and what rearranges the factors of any tile.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/MicroKernel.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/MicroKernel.h"
#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// As many rows of two vectors as the registers hold beside the factors: AVX-512 has 32, others 16.
constexpr size_t kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

void multiply(const LeftUnits &from, const float *b, int64_t units, float *c, int64_t stride, bool adds) {
  const float *a = from.at;
  const size_t n = lanes();
  V left[kRows], right[kRows];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r)
    left[r] = right[r] = hn::Zero(kF);
  for (int64_t u = 0; u < units; ++u, a += from.stepStride, b += 2 * n) {
    const V b0 = hn::LoadU(kF, b), b1 = hn::LoadU(kF, b + n);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const V x = hn::Set(kF, a[static_cast<int64_t>(r) * from.rowStride]);
      left[r] = hn::MulAdd(x, b0, left[r]);
      right[r] = hn::MulAdd(x, b1, right[r]);
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r, c += stride) {
    hn::StoreU(adds ? hn::Add(left[r], hn::LoadU(kF, c)) : left[r], kF, c);
    hn::StoreU(adds ? hn::Add(right[r], hn::LoadU(kF, c + n)) : right[r], kF, c + n);
  }
}

MicroKernel f32Kernel() { return {kRows, static_cast<int64_t>(2 * lanes()), 1, 1, nullptr, multiply}; }

/// `count` elements, at most a vector, and zeros.
HWY_INLINE V loadUnits(const char *source, size_t count) {
  if (count == lanes())
    return hn::LoadU(kF, reinterpret_cast<const float *>(source));
  HWY_ALIGN float padded[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(padded, source, count * sizeof(float));
  return hn::Load(kF, padded);
}

constexpr int64_t kTransposed = 4;
/// Four rows of a vector's units, those from `present` on zeros, to four columns of a panel. `count` units are read.
HWY_INLINE void transposeRows(const char *source, int64_t pitch, int64_t present, size_t count, int64_t columns,
                              float *panel) {
  V row[4];
  for (int64_t r = 0; r < 4; ++r)
    row[r] = r < present ? loadUnits(source + r * pitch, count) : hn::Zero(kF);
  // In each block of 128 bits; block q then has the units 4 q + j of the four rows.
  const hn::Repartition<double, F> pairs;
  auto interleave = [&](auto of, V a, V b, bool upper) HWY_ATTR {
    const auto x = hn::BitCast(of, a), y = hn::BitCast(of, b);
    return hn::BitCast(kF, upper ? hn::InterleaveUpper(of, x, y) : hn::InterleaveLower(of, x, y));
  };
  HWY_ALIGN float blocks[4][HWY_MAX_BYTES / sizeof(float)];
  for (int half = 0; half < 2; ++half) {
    const V ab = interleave(kF, row[0], row[1], half != 0), cd = interleave(kF, row[2], row[3], half != 0);
    hn::Store(interleave(pairs, ab, cd, false), kF, blocks[2 * half]);
    hn::Store(interleave(pairs, ab, cd, true), kF, blocks[2 * half + 1]);
  }
  for (size_t u = 0; u < count; ++u)
    std::memcpy(panel + static_cast<int64_t>(u) * columns, blocks[u % 4] + u / 4 * 4, 4 * sizeof(float));
}

/// Columns [0, count) of a panel: row j of `source`, `pitch` bytes apart, becomes column j.
void transposePanel(const char *source, int64_t pitch, int64_t count, int64_t columns, int64_t width, float *panel) {
  for (int64_t j = 0; j < columns; j += kTransposed)
    forVectors(0, width, [&](int64_t u, size_t units) HWY_ATTR {
      transposeRows(source + j * pitch + 4 * u, pitch, count - j, units, columns, panel + u * columns + j);
    });
}

/// Unit row of `columns`: elements [0, count) of fp32 `x`, zeros beyond.
void copyUnits(const float *x, int64_t count, int64_t columns, float *to) {
  forVectors(0, columns, [&](int64_t j, size_t c) HWY_ATTR {
    const auto present = static_cast<size_t>(std::clamp<int64_t>(count - j, 0, static_cast<int64_t>(c)));
    storePart(present == 0 ? hn::Zero(kF) : loadPart(x + j, present), to + j, c);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Convert.h"

namespace zc::cpu {
HWY_EXPORT(f32Kernel);
HWY_EXPORT(transposePanel);
HWY_EXPORT(copyUnits);

namespace {

/// Rows [begin, begin + count) in fp32.
SourceRows rowsOf(DType type, SourceRows source, int64_t begin, int64_t count, int64_t width, float *staging) {
  const char *at = static_cast<const char *>(source.at) + begin * source.stride * sizeOf(type);
  if (type == DType::f32)
    return {at, source.stride};
  for (int64_t row = 0; row < count; ++row)
    convertFast(type, at + row * source.stride * sizeOf(type), DType::f32, staging + row * width, width);
  return {staging, width};
}

bf16::Matrix pairsOf(SourceRows source) { return {static_cast<const Bf16 *>(source.at), source.stride}; }

/// All of a factor of the engine's.
void packPairs(const bf16::Engine &engine, const bf16::RightFactor &factor, int64_t columns, int64_t units,
               float *panels) {
  const bf16::Panels all(columns, engine);
  if (all.count() > 0)
    bf16::packPanels(factor, all, 0, all.count(), units, reinterpret_cast<uint32_t *>(panels));
}

} // namespace

MicroKernel microKernelOf(const bf16::Engine &engine) {
  return {engine.rows, engine.columns, 2, engine.unitStep, &engine, nullptr};
}
MicroKernel microKernelOf(DType type) {
  const bf16::Engine *engine = type == DType::bf16 ? bf16::engine() : nullptr;
  return engine ? microKernelOf(*engine->ofHeads) : HWY_DYNAMIC_DISPATCH(f32Kernel)();
}

void packTransposed(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *panels,
                    float *staging) {
  const int64_t units = by.units(width);
  if (by.engine)
    return packPairs(*by.engine, {pairsOf(source), true, width}, rows, units, panels);
  for (int64_t begin = 0; begin < rows; begin += by.columns) {
    const int64_t count = std::min(by.columns, rows - begin);
    const SourceRows chunk = rowsOf(type, source, begin, count, width, staging);
    HWY_DYNAMIC_DISPATCH(transposePanel)
    (static_cast<const char *>(chunk.at), chunk.stride * 4, count, by.columns, width, panels + begin * units);
  }
}

void packPanels(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *panels,
                float *staging) {
  const int64_t units = roundUp(rows, kTileColumns) / by.terms;
  if (by.engine)
    return packPairs(*by.engine, {pairsOf(source), false, rows}, width, units, panels);
  for (int64_t begin = 0; begin < rows; begin += kTileColumns) {
    const int64_t count = std::min(kTileColumns, rows - begin);
    const SourceRows chunk = rowsOf(type, source, begin, count, width, staging);
    for (int64_t row = 0; row < kTileColumns; ++row)
      for (int64_t j = 0; j < width; j += by.columns)
        HWY_DYNAMIC_DISPATCH(copyUnits)(static_cast<const float *>(chunk.at) + row * chunk.stride + j,
                                        row < count ? width - j : 0, by.columns,
                                        panels + j * units + (begin + row) * by.columns);
  }
}

void packRows(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *to,
              int64_t stride) {
  constexpr int64_t ahead = 16, line = 64;
  const char *from = static_cast<const char *>(source.at);
  const int64_t pitch = source.stride * sizeOf(type), bytes = width * sizeOf(type);
  for (int64_t row = 0; row < roundUp(rows, kTileRows); ++row, to += stride, from += pitch) {
    if (row >= rows || by.units(width) * by.terms != width)
      std::fill(to, to + by.units(width), 0.0f);
    if (row >= rows)
      continue;
    for (int64_t at = 0; row + ahead < rows && at < bytes; at += line)
      __builtin_prefetch(from + ahead * pitch + at);
    if (by.engine)
      std::memcpy(to, from, static_cast<size_t>(bytes));
    else
      convertFast(type, from, DType::f32, to, width);
  }
}

} // namespace zc::cpu
#endif
