#include "runtime/data/SampleOrder.h"

namespace zc::data {

/// SplitMix64's finalizer (Steele, Lea, Flood 2014).
static uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

SampleOrder::SampleOrder(int64_t samples, bool shuffle, uint64_t seed)
    : count(samples), shuffled(shuffle), seed(seed), halfBits(1) {
  while (halfBits < 31 && (uint64_t(1) << 2 * halfBits) < uint64_t(count))
    ++halfBits;
}

int64_t SampleOrder::at(int64_t position) const {
  uint64_t index = uint64_t(position) % uint64_t(count);
  if (!shuffled)
    return int64_t(index);
  uint64_t key = mix(seed ^ mix(uint64_t(position) / uint64_t(count)));
  uint64_t mask = (uint64_t(1) << halfBits) - 1;
  // The domain is less than four times `count`, so a walk is short; it ends because the network is a permutation.
  do {
    uint64_t left = index >> halfBits, right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mix(key + round + (right << 8)) & mask);
      left = right;
      right = next;
    }
    index = left << halfBits | right;
  } while (index >= uint64_t(count));
  return int64_t(index);
}

} // namespace zc::data
