// What norms over channels do to rows of channels, a vector of channels at a time. Included once per instruction set,
// so without `#pragma once`.
#if defined(ZC_CHANNEL_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZC_CHANNEL_ROWS_INL_H
#undef ZC_CHANNEL_ROWS_INL_H
#else
#define ZC_CHANNEL_ROWS_INL_H
#endif

#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// sums[s][j] = the sum over rows of terms[s] of terms(row, j, number of elements, terms).
template <size_t N, typename Terms> HWY_INLINE void sumRows(int64_t rows, int64_t n, float *sums, Terms terms) {
  std::fill(sums, sums + static_cast<int64_t>(N) * n, 0.0f);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4)
    forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
      V t[4][N];
      for (int64_t i = 0; i < 4; ++i)
        terms(r + i, j, c, t[i]);
      for (size_t s = 0; s < N; ++s) {
        float *sum = sums + static_cast<int64_t>(s) * n + j;
        const V pairs = hn::Add(hn::Add(t[0][s], t[1][s]), hn::Add(t[2][s], t[3][s]));
        storePart(hn::Add(loadPart(sum, c), pairs), sum, c);
      }
    });
  for (; r < rows; ++r)
    forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
      V t[N];
      terms(r, j, c, t);
      for (size_t s = 0; s < N; ++s) {
        float *sum = sums + static_cast<int64_t>(s) * n + j;
        storePart(hn::Add(loadPart(sum, c), t[s]), sum, c);
      }
    });
}

/// Mean and squares about it of each column of a block [rows, n]. `room`: both, [2][n].
template <typename T> void blockStatistics(const T *x, int64_t rows, int64_t n, float *room) {
  float *mean = room, *squares = room + n;
  sumRows<1>(rows, n, mean,
             [&](int64_t r, int64_t j, size_t c, V(&t)[1]) HWY_ATTR { t[0] = loadPart(x + r * n + j, c); });
  const V count = hn::Set(kF, static_cast<float>(rows));
  forVectors(0, n,
             [&](int64_t j, size_t c) HWY_ATTR { storePart(hn::Div(loadPart(mean + j, c), count), mean + j, c); });
  sumRows<1>(rows, n, squares, [&](int64_t r, int64_t j, size_t c, V(&t)[1]) HWY_ATTR {
    const V d = hn::Sub(loadPart(x + r * n + j, c), loadPart(mean + j, c));
    t[0] = hn::Mul(d, d);
  });
}

/// Adds a block's sums of g (x - mean) and of g to totals[2][n]. `room`: [2][n].
template <typename T>
void gradSumsOf(const T *g, const T *x, int64_t rows, int64_t n, const float *mean, float *room, double *totals) {
  sumRows<2>(rows, n, room, [&](int64_t r, int64_t j, size_t c, V(&t)[2]) HWY_ATTR {
    t[1] = loadPart(g + r * n + j, c);
    t[0] = hn::Mul(t[1], hn::Sub(loadPart(x + r * n + j, c), loadPart(mean + j, c)));
  });
  for (int64_t j = 0; j < 2 * n; ++j)
    totals[j] += room[j];
}

/// y = (x - mean) factor + shift, each of [n].
template <typename T>
void affineRows(const T *x, T *y, int64_t rows, int64_t n, const float *mean, const float *factor, const float *shift) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n)
    forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
      const V centred = hn::Sub(loadPart(x + j, c), loadPart(mean + j, c));
      storePart(hn::Add(hn::Mul(centred, loadPart(factor + j, c)), loadPart(shift + j, c)), y + j, c);
    });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#endif // ZC_CHANNEL_ROWS_INL_H
