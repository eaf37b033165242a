// Random numbers for the fast kernels, a block of the generator in each lane; included once per instruction set, as
// Simd-inl.h.
#if defined(ZC_RANDOM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ZC_RANDOM_INL_H
#undef ZC_RANDOM_INL_H
#else
#define ZC_RANDOM_INL_H
#endif

#include "kernels/cpu/fast/Simd-inl.h"
#include "kernels/formula/Philox.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

using Bits = hn::Vec<U>;
/// The upper halves of products of 32 bits.
HWY_INLINE Bits upperProduct(Bits a, Bits b) {
  const hn::Repartition<uint64_t, U> wide;
  const auto even = hn::MulEven(a, b), odd = hn::MulEven(hn::BitCast(U(), hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return hn::BitCast(U(), hn::Or(hn::ShiftRight<32>(even), hn::And(odd, hn::Set(wide, 0xFFFFFFFF00000000))));
}

/// A block of the generator in each lane (formula/Philox.h: the same words).
struct Blocks {
  Bits words[4];
};
HWY_INLINE Blocks randomBlocks(const Words &key, int64_t number) {
  const auto bits = static_cast<uint64_t>(number);
  const Bits start = hn::Set(U(), static_cast<uint32_t>(bits)), low = hn::Add(start, hn::Iota(U(), 0));
  const Bits high = hn::Set(U(), static_cast<uint32_t>(bits >> 32)), carried = hn::Add(high, hn::Set(U(), 1));
  const Bits a = hn::Set(U(), 0xD2511F53), b = hn::Set(U(), 0xCD9E8D57);
  Blocks c{{low, hn::IfThenElse(hn::Lt(low, start), carried, high), hn::Set(U(), key[2]), hn::Set(U(), key[3])}};
  uint32_t key0 = key[0], key1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const Bits upperA = upperProduct(c.words[0], a), lowerA = hn::Mul(c.words[0], a),
               upperB = upperProduct(c.words[2], b), lowerB = hn::Mul(c.words[2], b);
    c = {{hn::Xor(hn::Xor(upperB, c.words[1]), hn::Set(U(), key0)), lowerB,
          hn::Xor(hn::Xor(upperA, c.words[3]), hn::Set(U(), key1)), lowerA}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c;
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();
#endif
