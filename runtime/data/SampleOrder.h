//===- SampleOrder.h - which sample stands at which position of a run ----------===//
#pragma once

#include <cstdint>

namespace zc::data {

/// Sample of a position, where positions count the samples consumed since the run began, over all epochs. Pure: nothing
/// is stored, so ranks agree and a resumed run continues where it was. Unshuffled: position modulo samples. Shuffled:
/// each epoch has its own permutation, a four-round Feistel network with cycle walking (Black and Rogaway, "Ciphers
/// with arbitrary finite domains", 2002), keyed by seed and epoch.
class SampleOrder {
public:
  /// `samples` >= 1.
  SampleOrder(int64_t samples, bool shuffle, uint64_t seed);
  int64_t at(int64_t position) const;
  int64_t samples() const { return count; }

private:
  int64_t count;
  bool shuffled;
  uint64_t seed;
  int halfBits; ///< the network permutes 2^(2 * halfBits) >= count numbers
};

} // namespace zc::data
