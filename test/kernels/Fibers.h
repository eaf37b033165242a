//===- Fibers.h - a GPU's blocks on a host, each thread a fiber ---------------------------===//
//
// HostBlock goes through a body phase by phase, all threads of one before any of the next: it cannot show that a thread
// reads what another one has yet to write. Here DeviceBlock itself, the code of a GPU, runs with a stack for each
// thread. They meet at barriers and shuffles, and between these they run in an order that is drawn: a warp goes on as
// far as it may before the next one begins, and of its threads another one is the first each time. So what a block
// shares is read too early, or overwritten too early, where a barrier is missing; what is shared is full of NaN before.
// Threads that wait for each other at different places end the program.
//
// To be included before any header of kernels/cuda.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>

#define ZC_FIBERS
#define __device__
#define __shared__ static // of one block at a time

namespace zc::test::fibers {

/// Calls body once for each of so many threads, a multiple of 32, that have `shared`.
void runBlock(int threads, void *shared, const std::function<void()> &body);
/// Which orders are drawn from now on.
void seed(unsigned number);

// What the running one is and does.
int thread();
void *shared();
void meetBlock();
void meetWarp();
/// Where lane `lane` of the warp leaves up to 48 bytes for the others in the exchange that comes next or (`next` false)
/// was the last.
constexpr size_t kMost = 48;
void *left(int lane, bool next);
void endExchange();
/// Is this the first lane of the warp that goes on after the last exchange?
bool isFirst();

/// An exchange, of what each lane of the warp has.
template <typename E> void leave(const E &mine) {
  static_assert(sizeof(E) <= kMost);
  std::memcpy(left(thread() % 32, true), &mine, sizeof mine);
  endExchange();
}
/// What lane `lane` has left in the last one.
template <typename E> E leftBy(int lane) {
  E theirs;
  std::memcpy(&theirs, left(lane, false), sizeof(E));
  return theirs;
}
/// What all have, of which one that is the first makes something for all.
template <typename E, typename F> E together(const E &mine, F f) {
  leave(mine);
  if (isFirst()) {
    std::array<E, 32> all;
    for (int lane = 0; lane < 32; ++lane)
      all[static_cast<size_t>(lane)] = leftBy<E>(lane);
    f(all);
    for (int lane = 0; lane < 32; ++lane)
      std::memcpy(left(lane, false), &all[static_cast<size_t>(lane)], sizeof(E));
  }
  return leftBy<E>(thread() % 32);
}

struct ThreadIndex {
  struct X {
    operator unsigned() const { return static_cast<unsigned>(thread()); }
  } x;
};

} // namespace zc::test::fibers

namespace zc::cuda {

constexpr test::fibers::ThreadIndex threadIdx{};
inline void *sharedOfFibers() { return test::fibers::shared(); }
inline void __syncthreads() { test::fibers::meetBlock(); }
inline void __syncwarp() { test::fibers::meetWarp(); }
template <typename E> E __shfl_sync(unsigned, E mine, int lane) {
  test::fibers::leave(mine);
  return test::fibers::leftBy<E>(lane);
}
template <typename E> E __shfl_down_sync(unsigned, E mine, int by) {
  const int lane = test::fibers::thread() % 32;
  return __shfl_sync(0, mine, lane + by < 32 ? lane + by : lane);
}
template <typename E> E __shfl_xor_sync(unsigned, E mine, int by) {
  return __shfl_sync(0, mine, (test::fibers::thread() % 32) ^ by);
}
inline void atomicAdd(unsigned long long *to, unsigned long long value) { *to += value; }

} // namespace zc::cuda

#include "kernels/cuda/Launch.h"
#include "kernels/cuda/Warp.h"

namespace zc::cuda {

/// A warp's lane: HostWarp, of which the others are asked.
class FiberWarp {
public:
  static constexpr int kHeld = 1;
  template <typename E, int N> using Held = Lanes<FiberWarp, E, N>;
  using Fragment = Held<uint32_t, 4>;
  using Address = const char *;
  static Address addressOf(const void *shared) { return static_cast<Address>(shared); }

  FiberWarp() : index(test::fibers::thread() / 32) {}
  const int index;

  template <typename F> void forLanes(F f) const { f(lane(), 0); }
  template <bool kTurned, typename Row> void load(Fragment &to, Row row) const {
    test::fibers::leave(row(lane()));
    loadLane<kTurned>(lane(), to.of[0], [](int i) { return test::fibers::leftBy<Address>(i); });
  }
  template <typename T> void multiply(Held<float, 4> &c, const Fragment &a, const Fragment &pair, int half) const {
    Product own;
    std::memcpy(own.a, a.of[0], sizeof own.a);
    std::memcpy(own.pair, pair.of[0], sizeof own.pair);
    std::memcpy(own.c, c.of[0], sizeof own.c);
    own = test::fibers::together(own, [&](std::array<Product, 32> &all) { multiplyAll<T>(all, half); });
    std::memcpy(c.of[0], own.c, sizeof own.c);
  }
  template <typename Op, int N> void overQuads(Held<float, N> &x) const { overQuadsOf<Op>(x.of[0]); }

private:
  /// What a lane has of it.
  struct Product {
    uint32_t a[4], pair[4];
    float c[4];
  };
  template <typename T> static void multiplyAll(std::array<Product, 32> &all, int half) {
    uint32_t a[32][4], pair[32][4];
    float c[32][4];
    for (size_t lane = 0; lane < 32; ++lane) {
      std::memcpy(a[lane], all[lane].a, sizeof a[lane]);
      std::memcpy(pair[lane], all[lane].pair, sizeof pair[lane]);
      std::memcpy(c[lane], all[lane].c, sizeof c[lane]);
    }
    multiplyLanes<T>(c, a, pair, half);
    for (size_t lane = 0; lane < 32; ++lane)
      std::memcpy(all[lane].c, c[lane], sizeof c[lane]);
  }
  static int lane() { return test::fibers::thread() % 32; }
};

template <int T, typename State, typename F> void forWarps(DeviceBlock<T> &, State (&states)[1], F f) {
  const FiberWarp warp;
  f(warp, states[0]);
}
template <int T> struct Warps<DeviceBlock<T>> {
  using Warp = FiberWarp;
  using Copies = HostCopies;
  static constexpr int kHeld = 1;
};

/// For OnHost: a fiber for each thread.
struct OnFibers {
  template <int T, typename Body> static void run(const Body &body, int64_t index, const Frame &frame, void *shared) {
    test::fibers::runBlock(T, shared, [&] {
      DeviceBlock<T> block;
      body(block, index, frame);
    });
  }
};

} // namespace zc::cuda
