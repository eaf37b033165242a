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

void multiply(const float *a, int64_t rowStride, int64_t unitStride, const float *b, int64_t units, float *c,
              int64_t stride, bool adds) {
  const size_t n = lanes();
  V left[kRows], right[kRows];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r)
    left[r] = right[r] = hn::Zero(kF);
  for (int64_t u = 0; u < units; ++u, a += unitStride, b += 2 * n) {
    const V b0 = hn::LoadU(kF, b), b1 = hn::LoadU(kF, b + n);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const V x = hn::Set(kF, a[static_cast<int64_t>(r) * rowStride]);
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

MicroKernel f32Kernel() { return {kRows, static_cast<int64_t>(2 * lanes()), 1, multiply}; }

#if HWY_TARGET != HWY_SCALAR
/// `count` units of 32 bits, at most a vector, and zeros. Of 16-bit elements they may lie at any even address.
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
#else
constexpr int64_t kTransposed = 1;
HWY_INLINE void transposeRows(const char *source, int64_t, int64_t present, size_t, int64_t, float *panel) {
  *panel = 0;
  if (present > 0)
    std::memcpy(panel, source, sizeof(float));
}
#endif

/// Columns [0, count) of a panel in units: row j of `source`, `pitch` bytes apart, becomes column j. `whole` units of
/// 32 bits are read from each row, and `odd` elements of 16 bits after them.
void transposePanel(const char *source, int64_t pitch, int64_t count, int64_t columns, int64_t whole, bool odd,
                    float *panel) {
  for (int64_t j = 0; j < columns; j += kTransposed)
    forVectors(0, whole, [&](int64_t u, size_t units) HWY_ATTR {
      transposeRows(source + j * pitch + 4 * u, pitch, count - j, units, columns, panel + u * columns + j);
    });
  for (int64_t j = 0; odd && j < columns; ++j) {
    uint32_t unit = 0;
    if (j < count)
      std::memcpy(&unit, source + j * pitch + 4 * whole, 2);
    std::memcpy(panel + whole * columns + j, &unit, 4);
  }
}

/// Unit row of `columns`: elements [0, count) of fp32 `x`, zeros beyond.
void copyUnits(const float *x, int64_t count, int64_t columns, float *to) {
  forVectors(0, columns, [&](int64_t j, size_t c) HWY_ATTR {
    const auto present = static_cast<size_t>(std::clamp<int64_t>(count - j, 0, static_cast<int64_t>(c)));
    storePart(present == 0 ? hn::Zero(kF) : loadPart(x + j, present), to + j, c);
  });
}

/// The same of pairs: the first of each from `x`, the second from `y`, which may be null: zeros.
void pairUnits(const uint16_t *x, const uint16_t *y, int64_t count, int64_t columns, float *to) {
  const auto vector = static_cast<int64_t>(lanes());
  auto load = [&](const uint16_t *p, int64_t j) HWY_ATTR {
    return hn::BitCast(U(), loadPart(reinterpret_cast<const Bf16 *>(p) + j,
                                     static_cast<size_t>(std::min<int64_t>(count - j, vector))));
  };
  for (int64_t j = 0; j < columns; j += vector) {
    auto units = hn::Zero(U());
    if (j < count) {
      units = hn::ShiftRight<16>(load(x, j));
      if (y)
        units = hn::Or(units, load(y, j));
    }
    hn::StoreU(hn::BitCast(kF, units), kF, to + j);
  }
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
HWY_EXPORT(pairUnits);

namespace {

/// Rows [begin, begin + count) in what the kernel's units are made of.
SourceRows rowsOf(const MicroKernel &by, DType type, SourceRows source, int64_t begin, int64_t count, int64_t width,
                  float *staging) {
  const char *at = static_cast<const char *>(source.at) + begin * source.stride * sizeOf(type);
  if (by.terms == 2 || type == DType::f32)
    return {at, source.stride};
  for (int64_t row = 0; row < count; ++row)
    convertFast(type, at + row * source.stride * sizeOf(type), DType::f32, staging + row * width, width);
  return {staging, width};
}

} // namespace

MicroKernel microKernelOf(DType type) {
  const MicroKernel *narrow = type == DType::bf16 ? bf16MicroKernel() : nullptr;
  return narrow ? *narrow : HWY_DYNAMIC_DISPATCH(f32Kernel)();
}

void packTransposed(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *panels,
                    float *staging) {
  const int64_t panel = by.units(width) * by.columns;
  for (int64_t begin = 0; begin < rows; begin += by.columns) {
    const int64_t count = std::min(by.columns, rows - begin);
    const SourceRows chunk = rowsOf(by, type, source, begin, count, width, staging);
    HWY_DYNAMIC_DISPATCH(transposePanel)
    (static_cast<const char *>(chunk.at), chunk.stride * 4 / by.terms, count, by.columns, width / by.terms,
     width % by.terms != 0, panels + begin / by.columns * panel);
  }
}

void packPanels(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *panels,
                float *staging) {
  const int64_t panel = roundUp(rows, kTileColumns) / by.terms * by.columns;
  for (int64_t begin = 0; begin < rows; begin += kTileColumns) {
    const int64_t count = std::min(kTileColumns, rows - begin);
    const SourceRows chunk = rowsOf(by, type, source, begin, count, width, staging);
    for (int64_t row = 0; row < kTileColumns; row += by.terms)
      for (int64_t j = 0; j < width; j += by.columns) {
        float *to = panels + j / by.columns * panel + (begin + row) / by.terms * by.columns;
        const int64_t here = row < count ? width - j : 0;
        if (by.terms == 1) {
          HWY_DYNAMIC_DISPATCH(copyUnits)(static_cast<const float *>(chunk.at) + row * chunk.stride + j, here,
                                          by.columns, to);
        } else {
          const uint16_t *x = static_cast<const uint16_t *>(chunk.at) + row * chunk.stride + j;
          HWY_DYNAMIC_DISPATCH(pairUnits)(x, row + 1 < count ? x + chunk.stride : nullptr, here, by.columns, to);
        }
      }
  }
}

void packRows(const MicroKernel &by, DType type, SourceRows source, int64_t rows, int64_t width, float *to,
              int64_t stride) {
  const char *from = static_cast<const char *>(source.at);
  const int64_t pitch = source.stride * sizeOf(type);
  for (int64_t row = 0; row < roundUp(rows, kTileRows); ++row, to += stride) {
    if (row >= rows || width % by.terms != 0)
      std::fill(to, to + by.units(width), 0.0f);
    if (row >= rows)
      continue;
    if (by.terms == 2)
      std::memcpy(to, from + row * pitch, static_cast<size_t>(width * sizeOf(type)));
    else
      convertFast(type, from + row * pitch, DType::f32, to, width);
  }
}

} // namespace zc::cpu
#endif
