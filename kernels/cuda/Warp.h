//===- Warp.h - warps that multiply on tensor cores, on a GPU or on a host -----------------===//
//
// A body that multiplies is written for warps: forWarps() is a phase of all of a block's, each of which has a state of
// its own. What a lane holds in registers is Lanes: of the own lane on a GPU, of all 32 on a host, where a warp's
// instructions are done for all lanes in turn with the layouts of the PTX ISA (mma.m16n8k16, ldmatrix). So a host finds
// a wrong row, lane or register. Sums within one product are in another order than a GPU's, which is not told.
//
// Copies bring memory into what a block shares while it computes (cp.async). A host makes them when they are waited
// for, and until then NaN stands there: it finds what is read too early, or overwritten too early.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Block.h"

#include <cmath>
#include <vector>

#ifdef __CUDA_ARCH__
#define ZC_UNROLL _Pragma("unroll")
#define ZC_ROLLED _Pragma("unroll 1")
#else
#define ZC_UNROLL
#define ZC_ROLLED
#endif

namespace zc::cuda {

/// N registers of each lane that a piece of code holds.
template <typename Warp, typename E, int N> struct Lanes {
  E of[Warp::kHeld][N];
};

/// Two numbers of 16 bits as one register holds them.
template <typename T> ZC_HD uint32_t pairOf(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t pair;
  if constexpr (std::is_same_v<T, formula::Bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return formula::store<T>(low).bits | static_cast<uint32_t>(formula::store<T>(high).bits) << 16;
#endif
}
/// The lower of them (0) or the higher (1).
template <typename T> ZC_HD float ofPair(uint32_t pair, int which) {
  return formula::load(T{static_cast<uint16_t>(pair >> (16 * which))});
}

/// 2^x. On a GPU by its instruction: within 2^-22 of it; less than 2^-126 is 0.
ZC_HD float powerOfTwo(float x) {
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return std::exp2(x);
#endif
}

/// What lane `lane` has of four matrices of 8 x 8 numbers of 16 bits (ldmatrix): row(i) is where row i % 8 of matrix
/// i / 8 is. Of each it has two neighbours of row lane / 4, or where they are turned of column lane / 4.
template <bool kTurned, typename Row> void loadLane(int lane, uint32_t (&to)[4], Row row) {
  for (int m = 0; m < 4; ++m) {
    uint16_t pair[2];
    for (int k = 0; k < 2; ++k) {
      const int along = lane % 4 * 2 + k, across = lane / 4;
      std::memcpy(pair + k, row(m * 8 + (kTurned ? along : across)) + 2 * (kTurned ? across : along), 2);
    }
    to[m] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
  }
}

/// c [16 x 8] += a [16 x 16] * b [16 x 8], the first of the two in `pair` (half 0) or the second, as lanes hold them
/// (mma.m16n8k16); terms are added in order. Optimised in every build (HostWarp.cpp): under sanitizers half of the time
/// of attention's tests.
template <typename T>
void multiplyLanes(float (&c)[32][4], const uint32_t (&a)[32][4], const uint32_t (&pair)[32][4], int half);

class HostWarp {
public:
  static constexpr int kHeld = 32;
  template <typename E, int N> using Held = Lanes<HostWarp, E, N>;
  using Fragment = Held<uint32_t, 4>;
  using Address = const char *; ///< of what the block shares
  static Address addressOf(const void *shared) { return static_cast<Address>(shared); }

  explicit HostWarp(int index) : index(index) {}
  const int index; ///< in the block

  /// f(lane, where Lanes have what it holds).
  template <typename F> void forLanes(F f) const {
    for (int lane = 0; lane < 32; ++lane)
      f(lane, lane);
  }

  /// As loadLane, of each lane.
  template <bool kTurned, typename Row> void load(Fragment &to, Row row) const {
    for (int lane = 0; lane < 32; ++lane)
      loadLane<kTurned>(lane, to.of[lane], row);
  }
  template <typename T> void multiply(Held<float, 4> &c, const Fragment &a, const Fragment &pair, int half) const {
    multiplyLanes<T>(c.of, a.of, pair.of, half);
  }

  /// Op over the four lanes that have a row of a product.
  template <typename Op, int N> void overQuads(Held<float, N> &x) const {
    for (int half : {1, 2}) {
      const Held<float, N> before = x;
      for (int lane = 0; lane < 32; ++lane)
        for (int n = 0; n < N; ++n)
          x.of[lane][n] = Op::apply(before.of[lane][n], before.of[lane ^ half][n]);
    }
  }
};

class HostCopies {
public:
  /// kBytes, 4 or 16, from memory to what the block shares; zeroes where nothing is there.
  template <int kBytes> void copy(void *to, const void *from, bool isThere) {
    std::memset(to, 0xff, kBytes);
    groups.back().push_back({to, isThere ? from : nullptr, kBytes});
  }
  /// What was copied since the last one is a group.
  void commit() { groups.emplace_back(); }
  /// For all groups but the last kLeft; sync() has to follow where others copied.
  template <size_t kLeft> void wait() {
    for (; groups.size() > kLeft + 1; groups.erase(groups.begin()))
      for (const One &one : groups.front())
        one.from ? std::memcpy(one.to, one.from, one.bytes) : std::memset(one.to, 0, one.bytes);
  }

private:
  struct One {
    void *to;
    const void *from;
    size_t bytes;
  };
  std::vector<std::vector<One>> groups{1}; ///< the last one is not committed
};

/// f(warp, state of it) for each warp of a block.
template <int T, typename State, typename F> void forWarps(HostBlock<T> &, State (&states)[T / 32], F f) {
  for (int index = 0; index < T / 32; ++index) {
    const HostWarp warp(index);
    f(warp, states[index]);
  }
}

/// What stands for a block's warps.
template <typename Block> struct Warps;
template <int T> struct Warps<HostBlock<T>> {
  using Warp = HostWarp;
  using Copies = HostCopies;
  static constexpr int kHeld = T / 32; ///< states that a piece of code holds
};

#if defined(__CUDACC__) || defined(ZC_FIBERS)
/// Op over the four lanes that have a row of a product, of N numbers that each holds.
template <typename Op, int N> __device__ void overQuadsOf(float (&held)[N]) {
#pragma unroll
  for (int half = 1; half < 4; half *= 2)
#pragma unroll
    for (int n = 0; n < N; ++n)
      held[n] = Op::apply(held[n], __shfl_xor_sync(0xffffffffu, held[n], half));
}
#endif

#ifdef __CUDACC__
class DeviceWarp {
public:
  static constexpr int kHeld = 1;
  template <typename E, int N> using Held = Lanes<DeviceWarp, E, N>;
  using Fragment = Held<uint32_t, 4>;
  using Address = uint32_t;
  static __device__ Address addressOf(const void *shared) {
    return static_cast<Address>(__cvta_generic_to_shared(shared));
  }

  /// Of lane 0, as all have it: so that ptxas knows what depends on it to be the same for a warp.
  __device__ DeviceWarp() : index(static_cast<int>(__shfl_sync(0xffffffffu, threadIdx.x / 32, 0))) {}
  const int index;

  template <typename F> __device__ void forLanes(F f) const { f(static_cast<int>(threadIdx.x % 32), 0); }

  template <bool kTurned, typename Row> __device__ void load(Fragment &to, Row row) const {
    uint32_t(&x)[4] = to.of[0];
    const Address from = row(static_cast<int>(threadIdx.x % 32));
    if constexpr (kTurned)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(from));
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(from));
  }

  template <typename T>
  __device__ void multiply(Held<float, 4> &sums, const Fragment &rows, const Fragment &pair, int half) const {
    float(&c)[4] = sums.of[0];
    const uint32_t(&a)[4] = rows.of[0];
    const uint32_t low = half ? pair.of[0][2] : pair.of[0][0], high = half ? pair.of[0][3] : pair.of[0][1];
    if constexpr (std::is_same_v<T, formula::Bf16>)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
    else
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
  }

  template <typename Op, int N> __device__ void overQuads(Held<float, N> &x) const { overQuadsOf<Op>(x.of[0]); }
};

class DeviceCopies {
public:
  template <int kBytes> __device__ void copy(void *to, const void *from, bool isThere) {
    const uint32_t shared = DeviceWarp::addressOf(to), bytes = isThere ? kBytes : 0;
    if constexpr (kBytes == 16) // past the first-level cache
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from), "n"(kBytes), "r"(bytes)
                   : "memory");
  }
  __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kLeft> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory"); }
};

template <int T, typename State, typename F> __device__ void forWarps(DeviceBlock<T> &, State (&states)[1], F f) {
  const DeviceWarp warp;
  f(warp, states[0]);
}

template <int T> struct Warps<DeviceBlock<T>> {
  using Warp = DeviceWarp;
  using Copies = DeviceCopies;
  static constexpr int kHeld = 1;
};
#endif

} // namespace zc::cuda
