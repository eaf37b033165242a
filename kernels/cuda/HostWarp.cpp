#include "kernels/cuda/Warp.h"

void zc::cuda::addProducts(const float (&rows)[16][16], const float (&columns)[8][16], float (&sums)[32][4]) {
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 4; ++e) {
      const float *row = rows[lane / 4 + e / 2 * 8], *column = columns[lane % 4 * 2 + e % 2];
      float sum = sums[lane][e];
      for (int k = 0; k < 16; ++k)
        sum += row[k] * column[k];
      sums[lane][e] = sum;
    }
}
