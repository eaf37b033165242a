//===- Block.h - what a kernel's body is written over: a block of threads, on a GPU or on a host ---===//
//
// A body is a template over Block and is called once per block. On a GPU the block is real. On a host HostBlock goes
// through the same elements in loops and sums them in the same order: thread t of T takes packs t, t+T, ...; a warp
// adds by halves; warps are added in order. So a test on a machine without a GPU sees the bits that a GPU gives, where
// the functions that a body calls have the same bits on both (products, sums, quotients, roots; not e^x), both are
// compiled without contraction (--fmad=false, -ffp-contract=off) and `fma` stands where one is meant.
//
// No barrier, shuffle or shared memory is used outside this file. Between phases of a body in which threads read what
// others wrote stands `sync()`; reductions are phases of their own. What a thread keeps of its packs from one phase to
// the next lies in slots: P of them a thread, registers on a GPU, an array for all threads on a host; or, where a row
// is too long for those, in memory that the block shares (`shared()`), of which a thread reads what it wrote.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/formula/Stored.h"

namespace zc::cuda {

/// V elements that are loaded and stored at once: up to 16 bytes.
template <typename T, int V> struct alignas(sizeof(T) * V) Pack {
  T element[V];
};

/// Sums of doubles, and of floats: what a block's reductions work in.
struct AddOf {
  template <typename S> static ZC_HD S apply(S a, S b) { return a + b; }
};
/// Two sums at once: their shuffles do not wait for each other.
template <typename S> struct Two {
  S first, second;
  friend ZC_HD Two operator+(Two a, Two b) { return {a.first + b.first, a.second + b.second}; }
};
/// NaN wins.
struct MaxOf {
  template <typename S> static ZC_HD S apply(S a, S b) { return b > a || b != b ? b : a; }
};
struct MinOf {
  template <typename S> static ZC_HD S apply(S a, S b) { return b < a || b != b ? b : a; }
};
struct MulOf {
  template <typename S> static ZC_HD S apply(S a, S b) { return a * b; }
};

/// use(load(i)) for i in [begin, end), in order; so many loads are on their way before the first is used, of those that
/// are left over 8.
template <int kBatch = 8, typename Load, typename Use>
ZC_HD void inBatches(int64_t begin, int64_t end, Load load, Use use) {
  for (; begin + kBatch <= end; begin += kBatch) {
    decltype(load(begin)) batch[kBatch];
    for (int k = 0; k < kBatch; ++k)
      batch[k] = load(begin + k);
    for (int k = 0; k < kBatch; ++k)
      use(batch[k]);
  }
  if constexpr (kBatch > 8)
    inBatches<8>(begin, end, load, use);
  else
    for (; begin < end; ++begin)
      use(load(begin));
}

template <int T> class HostBlock {
public:
  static constexpr int kThreads = T;
  /// Slots of an array that keeps something of each of P packs a thread.
  template <int P> static constexpr int kSlots = T * P;

  explicit HostBlock(void *sharedBytes = nullptr) : sharedBytes(sharedBytes) {}
  /// What the launch asked for.
  void *shared() { return sharedBytes; }

  /// f(i) for i = 0, V, 2V, ... < n; n is a multiple of V.
  template <int V = 1, typename F> void forEach(int64_t n, F f) {
    for (int64_t i = 0; i < n; i += V)
      f(i);
  }
  /// f(i, slot) for i = 0, V, 2V, ... < n, a multiple of V and at most T * P packs.
  template <int P, int V, typename F> void forSlots(int64_t n, F f) {
    for (int t = 0; t < T; ++t)
      for (int p = 0; p < P; ++p)
        if (int64_t i = (static_cast<int64_t>(p) * T + t) * V; i < n)
          f(i, t * P + p);
  }
  /// op over start and f(0), f(V), ...; every thread has the result. Each thread's part begins with `start`.
  template <typename Op, int V = 1, typename S, typename F> S reduce(int64_t n, S start, F f, const Op &op = Op()) {
    S partial[T];
    for (int t = 0; t < T; ++t) {
      partial[t] = start;
      for (int64_t i = static_cast<int64_t>(t) * V; i < n; i += static_cast<int64_t>(T) * V)
        partial[t] = op.template apply<S>(partial[t], f(i));
    }
    return join<Op>(partial, start, op);
  }
  /// As reduce, of what forSlots goes over: the same order.
  template <typename Op, int P, int V, typename S, typename F>
  S reduceSlots(int64_t n, S start, F f, const Op &op = Op()) {
    S partial[T];
    for (int t = 0; t < T; ++t)
      partial[t] = start;
    forSlots<P, V>(
        n, [&](int64_t i, int slot) { partial[slot / P] = op.template apply<S>(partial[slot / P], f(i, slot)); });
    return join<Op>(partial, start, op);
  }
  /// out[k] += what f(i, acc) adds to acc[k], over i in [0, n). Integers: in any order.
  template <int N, typename F> void addIntegers(int64_t n, int64_t *out, F f) {
    for (int64_t i = 0; i < n; ++i)
      f(i, out);
  }
  /// By one thread.
  template <typename F> void once(F f) { f(); }
  void sync() {}

private:
  template <typename Op, typename S> static S join(S (&partial)[T], S start, const Op &op) {
    S result = start;
    for (int warp = 0; warp < T; warp += 32) {
      for (int half = 16; half; half /= 2)
        for (int lane = 0; lane < half; ++lane)
          partial[warp + lane] = op.template apply<S>(partial[warp + lane], partial[warp + lane + half]);
      result = warp ? op.template apply<S>(result, partial[warp]) : partial[0];
    }
    return result;
  }
  void *sharedBytes;
};

/// Two phases of threads 0 to T - 1 in groups of `group`, a power of two up to T. first(thread, state) gives what each
/// has; then(thread, state, result) is told Op over what all of its group have, in any order. What `state` holds stays
/// in registers between them. Once per body.
template <typename Op, typename State, int T, typename First, typename Then>
void inGroups(HostBlock<T> &, int group, First first, Then then) {
  State state[T];
  decltype(first(0, state[0])) part[T];
  for (int t = 0; t < T; ++t)
    part[t] = first(t, state[t]);
  for (int half = 1; half < group; half *= 2)
    for (int t = 0; t < T; ++t)
      if (!(t & half))
        part[t] = part[t + half] = Op::apply(part[t], part[t + half]);
  for (int t = 0; t < T; ++t)
    then(t, state[t], part[t]);
}

#if defined(__CUDACC__) || defined(ZC_FIBERS)
/// One block of the grid; of 32 threads, a warp of a block that has several. On a host its threads are fibers
/// (test/kernels/Fibers.h), which meet where a GPU's have to and run in any other order between.
template <int T> class DeviceBlock {
public:
  static constexpr int kThreads = T;
  template <int P> static constexpr int kSlots = P;

  __device__ void *shared() {
    static_assert(T > 32, "warps of a block would share it");
#ifdef __CUDACC__
    extern __shared__ uint4 sharedBytes[];
    return sharedBytes;
#else
    return sharedOfFibers();
#endif
  }

  template <int V = 1, typename F> __device__ void forEach(int64_t n, F f) {
    for (int64_t i = static_cast<int64_t>(thread()) * V; i < n; i += static_cast<int64_t>(T) * V)
      f(i);
  }
  template <int P, int V, typename F> __device__ void forSlots(int64_t n, F f) {
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (const int i = (p * T + thread()) * V; i < static_cast<int>(n))
        f(i, p);
  }
  template <typename Op, int V = 1, typename S, typename F>
  __device__ S reduce(int64_t n, S start, F f, const Op &op = Op()) {
    S mine = start;
    forEach<V>(n, [&](int64_t i) { mine = op.template apply<S>(mine, f(i)); });
    return join(mine, op);
  }
  template <typename Op, int P, int V, typename S, typename F>
  __device__ S reduceSlots(int64_t n, S start, F f, const Op &op = Op()) {
    S mine = start;
    forSlots<P, V>(n, [&](int64_t i, int slot) { mine = op.template apply<S>(mine, f(i, slot)); });
    return join(mine, op);
  }
  template <int N, typename F> __device__ void addIntegers(int64_t n, int64_t *out, F f) {
    int64_t mine[N] = {};
    forEach(n, [&](int64_t i) { f(i, mine); });
    for (int k = 0; k < N; ++k) {
      auto value = static_cast<unsigned long long>(mine[k]);
      for (int half = 16; half; half /= 2)
        value += __shfl_down_sync(0xffffffffu, value, half);
      if (thread() % 32 == 0 && value)
        atomicAdd(reinterpret_cast<unsigned long long *>(out + k), value);
    }
  }
  template <typename F> __device__ void once(F f) {
    if (thread() == 0)
      f();
  }
  __device__ void sync() {
    if constexpr (T == 32)
      __syncwarp();
    else
      __syncthreads();
  }

private:
  static __device__ int thread() { return static_cast<int>(T == 32 ? threadIdx.x % 32 : threadIdx.x); }
  /// shuffle(word) of each 4 bytes of a value.
  template <typename S, typename F> static __device__ S ofWords(const S &value, F shuffle) {
    uint32_t words[sizeof(S) / 4];
    memcpy(words, &value, sizeof value);
    for (uint32_t &word : words)
      word = shuffle(word);
    S result;
    memcpy(&result, words, sizeof result);
    return result;
  }

  template <typename Op, typename S> __device__ S join(S mine, const Op &op) {
    for (int half = 16; half; half /= 2)
      mine = op.template apply<S>(
          mine, ofWords(mine, [half](uint32_t word) { return __shfl_down_sync(0xffffffffu, word, half); }));
    if constexpr (T == 32)
      return ofWords(mine, [](uint32_t word) { return __shfl_sync(0xffffffffu, word, 0); });
    __shared__ S warps[T / 32];
    __syncthreads(); // whoever still reads the last reduction's
    if (thread() % 32 == 0)
      warps[thread() / 32] = mine;
    __syncthreads();
    S result = warps[0];
    for (int warp = 1; warp < T / 32; ++warp)
      result = op.template apply<S>(result, warps[warp]);
    return result;
  }
};

template <typename Op, typename State, int T, typename First, typename Then>
__device__ void inGroups(DeviceBlock<T> &, int group, First first, Then then) {
  static_assert(T > 32, "warps of a block would share what groups share");
  const int thread = static_cast<int>(threadIdx.x);
  State state;
  auto part = first(thread, state);
#pragma unroll
  for (int half = 16; half; half /= 2)
    if (half < group) // for all threads or for none
      part = Op::apply(part, __shfl_xor_sync(0xffffffffu, part, half));
  if (group > 32) {
    __shared__ decltype(part) warps[T / 32];
    if (thread % 32 == 0)
      warps[thread / 32] = part;
    __syncthreads();
    const int own = (thread & -group) / 32;
    part = warps[own];
    for (int warp = 1; warp < group / 32; ++warp)
      part = Op::apply(part, warps[own + warp]);
  }
  then(thread, state, part);
}
#endif

/// Threads of a block that works on independent elements, and elements that one such block takes.
constexpr int kElementThreads = 256;
constexpr int64_t kElementsPerBlock = 2048;
constexpr int64_t blocksFor(int64_t elements) { return (elements + kElementsPerBlock - 1) / kElementsPerBlock; }

/// Elements [first, first + count) of n: what block `index` of overElements does.
struct Part {
  int64_t first, count;
  ZC_HD Part(int64_t index, int64_t n)
      : first(index * kElementsPerBlock), count(n - first < kElementsPerBlock ? n - first : kElementsPerBlock) {}
};

} // namespace zc::cuda
