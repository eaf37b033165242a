//===- Launch.h - kernels from bodies, for a GPU and for a host ---------------===//
//
// A family's header has bodies (callables over a block and its number) and factories that are templates over a target:
// they read a KernelSpec and say which body runs on how many blocks. Gpu.h launches them on a stream; Host, here, calls
// them in a loop: so every kernel runs, and is tested, on machines without a GPU.
//
// Shapes decide grids and block sizes, never the number of multiprocessors: results do not depend on the size of a GPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"
#include "kernels/cuda/Block.h"
#include "kernels/cuda/OutOfRange.h"
#include "kernels/cuda/Workspace.h"
#include "kernels/formula/Elements.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace zc::cuda {

/// The first index or label that was out of range; the step is not to be trusted after it. In memory of the host that
/// the device reaches.
struct FirstError {
  static constexpr int32_t kTold = 2;
  int32_t set;    ///< 0: none; 1: being written; kTold
  int32_t kernel; ///< of KernelFrame
  int64_t value;
};

/// What bodies see beside their operands.
struct Frame {
  const StepContext *context; ///< in memory of the device
  FirstError *error;
  int32_t kernel; ///< which one asks

  ZC_HD void fail(int64_t value) const {
#ifdef __CUDA_ARCH__
    if (atomicCAS(&error->set, 0, 1) == 0) {
      error->kernel = kernel;
      error->value = value;
      __threadfence_system();
      *const_cast<volatile int32_t *>(&error->set) = FirstError::kTold;
    }
#else
    if (!error->set)
      *error = {FirstError::kTold, kernel, value};
#endif
  }
};

/// Sorts pairs by key, stably, into the second halves of both; keys and values are arrays of 2 n. On a host.
inline void sortPairsOnHost(int32_t *keys, int32_t *values, int64_t n) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return std::tie(keys[a], a) < std::tie(keys[b], b); });
  for (int64_t i = 0; i < n; ++i) {
    keys[n + i] = keys[order[static_cast<size_t>(i)]];
    values[n + i] = values[order[static_cast<size_t>(i)]];
  }
}

/// A block after the other, a phase of all its threads after the other.
struct InPhases {
  template <int T, typename Body> static void run(int64_t count, const Body &body, const Frame &frame, int64_t shared) {
    std::vector<Pack<uint32_t, 4>> bytes(static_cast<size_t>(shared) / sizeof(Pack<uint32_t, 4>));
    for (int64_t b = 0; b < count; ++b) {
      HostBlock<T> block(bytes.data());
      body(block, b, frame);
    }
  }
};

/// Runs bodies at once; `Blocks` says how a host does.
template <typename Blocks> struct OnHost {
  using KernelType = Kernel;

  class Launcher {
  public:
    Launcher(const StepContext &context, FirstError &error, void *workspace)
        : frame{&context, &error, 0}, space(workspace) {}
    /// As many bytes as Workspace.h says the kernel needs.
    void *workspace() const { return space; }
    /// `shared`: bytes that the threads of a block share, a multiple of 16.
    template <int T, typename Body> void blocks(int64_t count, const Body &body, int64_t shared = 0) const {
      Blocks::template run<T>(count, body, frame, shared);
    }
    /// As much as a GPU of compute capability 8.0 has.
    int64_t mostShared() const { return 160 * 1024; }
    /// Zeroes.
    void zero(void *bytes, int64_t count) const {
      if (count)
        std::memset(bytes, 0, static_cast<size_t>(count));
    }
    /// Copies; the two may be one.
    void copy(void *to, const void *from, int64_t count) const {
      if (count && to != from)
        std::memcpy(to, from, static_cast<size_t>(count));
    }

    /// A kernel that was prepared apart; not after one has failed.
    void call(Kernel &part, void *const *operands) const {
      if (ofParts.ok())
        ofParts = part.run(operands, *frame.context);
    }
    Status status() const { return ofParts; }

    /// As sortPairsOnHost; `space` has sortBytes(n) bytes.
    void sortPairs(int32_t *keys, int32_t *values, int64_t n, void *) const { sortPairsOnHost(keys, values, n); }

  private:
    Frame frame;
    void *space;
    mutable Status ofParts;
  };

  /// A kernel from a callable (void *const *operands, const Launcher &).
  template <typename Fn> class Launched : public Kernel {
  public:
    Launched(const KernelSpec &spec, Fn fn) : spec(spec), fn(std::move(fn)) {}
    Status run(void *const *operands, const StepContext &context) override {
      FirstError error{};
      const Launcher launch(context, error, spec.workspace ? operands[spec.operands.size()] : nullptr);
      fn(operands, launch);
      ZC_RETURN_IF_ERROR(launch.status());
      if (error.set)
        return outOfRange(spec, error.value);
      return Status::success();
    }

  private:
    KernelSpec spec;
    Fn fn;
  };
};
using Host = OnHost<InPhases>;

template <typename Target> using Prepared = Result<std::unique_ptr<typename Target::KernelType>>;

/// Makes kernels that another one is made of.
template <typename Target> using PartMaker = std::function<Prepared<Target>(const KernelSpec &)>;

template <typename Target, typename Fn> Prepared<Target> launching(const KernelSpec &spec, Fn fn) {
  return std::unique_ptr<typename Target::KernelType>(
      std::make_unique<typename Target::template Launched<Fn>>(spec, std::move(fn)));
}

/// f(i) for the elements i of n that block `index` of overElements does.
template <typename Block, typename F> ZC_HD void forElements(Block &block, int64_t index, int64_t n, const F &f) {
  Part part(index, n);
  block.forEach(part.count, [&](int64_t i) { f(part.first + i); });
}

/// A block per part of n elements.
template <typename Launcher, typename Body> void overElements(const Launcher &launch, int64_t n, const Body &body) {
  if (n > 0)
    launch.template blocks<kElementThreads>(blocksFor(n), body);
}

/// f(i) for the results of n that block `index` of overResults has.
template <typename Block, typename F> ZC_HD void forResults(Block &block, int64_t index, int64_t n, const F &f) {
  const int64_t first = index * 32, rest = n - first;
  block.forEach(rest < 32 ? rest : 32, [&](int64_t i) { f(first + i); });
}

/// A thread per result, of results that are few and long to make: as many multiprocessors as there are work on them.
template <typename Launcher, typename Body> void overResults(const Launcher &launch, int64_t n, const Body &body) {
  launch.template blocks<32>((n + 31) / 32, body);
}

/// A block per row; as many threads as rows of `loads` loads (of a pack or an element) keep busy. A warp takes the row
/// of a layer norm: it has no barriers, and four loads a thread are enough on their way.
template <typename Launcher, typename Body>
void overRows(const Launcher &launch, int64_t rows, int64_t loads, const Body &body) {
  if (rows <= 0)
    return;
  if (loads <= 128)
    launch.template blocks<32>(rows, body);
  else if (loads <= 2048)
    launch.template blocks<256>(rows, body);
  else
    launch.template blocks<1024>(rows, body);
}

} // namespace zc::cuda
