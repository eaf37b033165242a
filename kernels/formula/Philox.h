//===- Philox.h - counter-based random numbers --------------------------------===//
//
// Philox4x32-10 of Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, table 2.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/formula/Elements.h"

#include <cstdint>

namespace zc::formula {

/// Four words; no std::array, whose members a GPU's code cannot call.
struct Words {
  uint32_t word[4];
  /// Without an address that is not known when it is compiled, for which a GPU would keep the words in memory.
  ZC_HD uint32_t operator[](int64_t i) const {
    return i < 2 ? (i == 0 ? word[0] : word[1]) : (i == 2 ? word[2] : word[3]);
  }
};

ZC_HD Words philox(Words counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

/// The key of one random operation's numbers: a pure function of its id, the step, the micro-step, the rank and the
/// seed, so that a recomputed forward has the same ones.
ZC_HD Words randomKey(int64_t id, int64_t step, int64_t micro, int64_t rank, uint64_t seed) {
  return philox({{static_cast<uint32_t>(id), static_cast<uint32_t>(step), static_cast<uint32_t>(micro),
                  static_cast<uint32_t>(rank)}},
                static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

/// Block `number` of an operation's numbers: element e of a mask is word e % 4 of block e / 4.
ZC_HD Words randomBlock(const Words &key, int64_t number) {
  auto bits = static_cast<uint64_t>(number);
  return philox({{static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), key[2], key[3]}}, key[0], key[1]);
}

/// Whose numbers a tensor's elements have: their own, or, of a part of a tensor, those of their places in the whole.
struct NumbersOfPart {
  int64_t run = 0; ///< elements that lie together there; 0: the tensor is whole
  int64_t stride = 0, first = 0;
  /// Not negative, whatever a plan says.
  ZC_HD int64_t placeOf(int64_t e) const {
    if (run == 0)
      return e;
    auto place = static_cast<uint64_t>(e / run) * static_cast<uint64_t>(stride) + static_cast<uint64_t>(first) +
                 static_cast<uint64_t>(e % run);
    return static_cast<int64_t>(place & ~uint64_t{0} >> 1);
  }
};

/// The words of elements e to e + 3, where e is a multiple of 4.
ZC_HD Words randomWords(const Words &key, const NumbersOfPart &part, int64_t e) {
  if (part.run == 0)
    return randomBlock(key, e / 4);
  Words block{};
  int64_t known = -1;
  auto wordOf = [&](int64_t i) {
    const int64_t place = part.placeOf(e + i);
    if (place / 4 != known)
      block = randomBlock(key, known = place / 4);
    return block[place % 4];
  };
  const uint32_t first = wordOf(0), second = wordOf(1), third = wordOf(2), fourth = wordOf(3);
  return {{first, second, third, fourth}};
}

/// Below it a word is dropped: word / 2^32 < ratio, in [0, 1]. A word too, but for a ratio of 1.
ZC_HD uint64_t dropoutThreshold(double ratio) { return static_cast<uint64_t>(ratio * 4294967296.0); }
/// What dropout multiplies element `e` by, ratio < 1.
ZC_HD float dropoutFactor(const Words &key, int64_t e, double ratio) {
  return randomBlock(key, e / 4)[e % 4] >= dropoutThreshold(ratio) ? static_cast<float>(1 / (1 - ratio)) : 0.0f;
}

/// Element `e` of random numbers in [0, 1): 64 bits of the stream each; or normal: of two numbers each (Box and Muller
/// 1958).
template <typename T> ZC_HD T randomNumber(const Words &key, int64_t e, bool normal) {
  if (normal) {
    Words pair = randomBlock(key, e); // of an own block: both numbers are needed whole
    return store<T>(static_cast<Compute<T>>(std::sqrt(-2 * std::log((pair[0] + 0.5) * 0x1p-32)) *
                                            std::cos(6.283185307179586 * pair[1] * 0x1p-32)));
  }
  Words words = randomBlock(key, e / 2);
  int64_t first = e % 2 * 2;
  T value = store<T>(static_cast<Compute<T>>(words[first] * 0x1p-32 + words[first + 1] * 0x1p-64));
  // Rounding to a short type must not reach 1.
  return load(value) < 1 ? value : store<T>(static_cast<Compute<T>>(1 - 0x1p-8));
}

} // namespace zc::formula
