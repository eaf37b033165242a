#include "kernels/cuda/Warp.h"

namespace zc::cuda {

template <typename T>
void multiplyLanes(float (&c)[32][4], const uint32_t (&a)[32][4], const uint32_t (&pair)[32][4], int half) {
  float rows[16][16], columns[8][16];
  for (int lane = 0; lane < 32; ++lane)
    for (int k = 0; k < 2; ++k) {
      const int group = lane / 4, at = lane % 4 * 2 + k;
      for (int m = 0; m < 4; ++m)
        rows[group + m % 2 * 8][at + m / 2 * 8] = ofPair<T>(a[lane][m], k);
      for (int m = 0; m < 2; ++m)
        columns[group][at + m * 8] = ofPair<T>(pair[lane][half * 2 + m], k);
    }
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 4; ++e) {
      const float *row = rows[lane / 4 + e / 2 * 8], *column = columns[lane % 4 * 2 + e % 2];
      float sum = c[lane][e];
      for (int k = 0; k < 16; ++k)
        sum += row[k] * column[k];
      c[lane][e] = sum;
    }
}

template void multiplyLanes<formula::Bf16>(float (&)[32][4], const uint32_t (&)[32][4], const uint32_t (&)[32][4], int);
template void multiplyLanes<formula::F16>(float (&)[32][4], const uint32_t (&)[32][4], const uint32_t (&)[32][4], int);

} // namespace zc::cuda
