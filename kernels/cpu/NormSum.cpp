#include "kernels/cpu/NormSum.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace zc::cpu {

/// Adds value << position.
static void addShifted(int64_t *limbs, uint64_t value, int position) {
  auto shifted = static_cast<unsigned __int128>(value) << (position % 32);
  for (int limb = position / 32; shifted != 0; ++limb, shifted >>= 32)
    limbs[limb] += static_cast<int64_t>(static_cast<uint32_t>(shifted));
}

void addToNorm(int64_t *limbs, double value) {
  if (!(value < 0x1p380)) {
    ++limbs[kNormDigits];
    return;
  }
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  int biased = static_cast<int>(bits >> 52 & 2047);
  uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (biased ? uint64_t{1} << 52 : 0);
  // value = mantissa * 2^(max(biased, 1) - 1075); position of its lowest bit in the accumulator:
  int position = (biased ? biased : 1) - 1075 - kNormExponent;
  if (position < 0) {
    if (position <= -64)
      return;
    mantissa >>= -position;
    position = 0;
  }
  addShifted(limbs, mantissa, position);
}

void NormBins::addTo(int64_t *limbs) const {
  for (size_t bin = 0; bin < kBins; ++bin)
    if (high[bin] != 0) {
      addShifted(limbs, low[bin], static_cast<int>(bin));
      addShifted(limbs, high[bin], static_cast<int>(bin) + 32);
    }
}

void normalizeNorm(int64_t *limbs) {
  int64_t carry = 0;
  for (int i = 0; i < kNormDigits; ++i) {
    int64_t digit = limbs[i] + carry;
    carry = i + 1 < kNormDigits ? digit >> 32 : 0;
    limbs[i] = digit - carry * (int64_t{1} << 32);
  }
}

double normValue(const int64_t *limbs) {
  if (limbs[kNormDigits] != 0)
    return std::numeric_limits<double>::quiet_NaN();
  // From the top: each digit is far below the last bit of the sum of those two above it.
  double sum = 0;
  for (int i = kNormDigits; i-- > 0;)
    sum += std::ldexp(static_cast<double>(limbs[i]), 32 * i + kNormExponent);
  return sum;
}

} // namespace zc::cpu
