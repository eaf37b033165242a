//===- Launch.h - kernels from bodies, for a GPU and for a host ---------------===//
//
// A family's header has bodies (callables over a block and its number) and factories that are templates over a target:
// they read a KernelSpec and say which body runs on how many blocks. A target says where such work goes: Gpu.h's onto a
// stream, HostQueue.h's onto a queue of a host, which calls bodies in a loop: so every kernel runs, and is tested, on
// machines without a GPU.
//
// Shapes decide grids and block sizes, never the number of multiprocessors: results do not depend on the size of a GPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Block.h"
#include "kernels/cuda/Workspace.h"
#include "kernels/formula/Elements.h"
#include "kernels/shapes/Shapes.h"

#include <limits>
#include <type_traits>

namespace zc::cuda {

/// An index or a label that is not in [low, high).
struct WrongIndex {
  int64_t value, low, high;
  bool isLabel;

  /// As the CPU's kernels say it.
  Error told(const KernelSpec &spec) const {
    return shapes::outOfRange(spec, isLabel ? "label" : "index", value, low, high);
  }
};

/// The first of them; the step is not to be trusted after it. In memory of the host that the device reaches.
struct FirstError {
  static constexpr int32_t kTold = 2;
  int32_t set;    ///< 0: none; 1: being written; kTold
  int32_t kernel; ///< of Frame
  WrongIndex wrong;
};

/// What bodies see beside their operands.
struct Frame {
  const StepContext *context; ///< in memory of the device
  FirstError *error;
  int32_t kernel; ///< which one asks

  /// Of an index that may count from the end.
  ZC_HD void wrongIndex(int64_t value, int64_t size) const { fail({value, -size, size, false}); }
  ZC_HD void wrongLabel(int64_t value, int64_t classes) const { fail({value, 0, classes, true}); }
  ZC_HD void fail(const WrongIndex &wrong) const {
#ifdef __CUDA_ARCH__
    if (atomicCAS(&error->set, 0, 1) == 0) {
      error->kernel = kernel;
      error->wrong = wrong;
      __threadfence_system();
      *const_cast<volatile int32_t *>(&error->set) = FirstError::kTold;
    }
#else
    if (!error->set)
      *error = {FirstError::kTold, kernel, wrong};
#endif
  }
};

/// Bytes that every GPU's blocks may share without being asked, less what reductions of a body take.
constexpr int64_t kSharedByReductions = 1024, kSharedAlways = 48 * 1024 - kSharedByReductions;

/// What a queue says of work that it is given: 0, or why it is refused, as CUDA numbers it (cudaError_t).
using LaunchStatus = int;
constexpr LaunchStatus kLaunched = 0, kNoLaunchMemory = 2, kInvalidGrid = 9;

/// A prepared kernel, which puts its work onto a queue. `enqueue` is called from one thread at a time.
template <typename Queue> class QueuedKernel {
public:
  virtual ~QueuedKernel() = default;
  /// `operands[i]` points at operand i's elements, and one past the last at the workspace, if there is one. Errors: the
  /// launch was refused.
  virtual Status enqueue(void *const *operands, const Frame &frame, Queue queue) = 0;
  /// Why it is not the implementation that was planned; empty: it is.
  virtual std::string note() const { return {}; }
};

/// Kernels of a target, by name.
template <typename KernelType> class TargetRegistry {
public:
  using Factory = std::function<Result<std::unique_ptr<KernelType>>(const KernelSpec &)>;
  void add(const std::string &name, Factory factory) { factories[name] = std::move(factory); }
  const Factory *find(const std::string &name) const {
    auto found = factories.find(name);
    return found == factories.end() ? nullptr : &found->second;
  }
  const std::map<std::string, Factory> &all() const { return factories; }

private:
  std::map<std::string, Factory> factories;
};

/// What a kernel launches by while it is enqueued. The first refusal is kept.
///
/// A Target has: Handle, what kernels are enqueued on; KernelType, QueuedKernel<Handle>; Queue, made of a handle, with
/// launch<threads>(blocks, shared, body, frame), zero, copy, sortPairs, mostShared and textOf(LaunchStatus).
template <typename Target> class Launcher {
public:
  Launcher(const Frame &frame, void *workspace, typename Target::Handle queue)
      : frame(frame), space(workspace), handle(queue), queue(queue) {}
  /// As many bytes as Workspace.h says the kernel needs.
  void *workspace() const { return space; }

  /// `shared`: bytes that the threads of a block share, a multiple of 16, up to mostShared().
  template <int T, typename Body> void blocks(int64_t count, const Body &body, int64_t shared = 0) const {
    static_assert(std::is_trivially_copyable_v<Body>, "a kernel is told bytes");
    if (isGrid(count))
      keep(queue.template launch<T>(static_cast<unsigned>(count), static_cast<size_t>(shared), body, frame));
  }
  int64_t mostShared() const { return queue.mostShared(); }
  /// Zeroes.
  void zero(void *bytes, int64_t count) const {
    if (count)
      keep(queue.zero(bytes, static_cast<size_t>(count)));
  }
  /// Copies; the two may be one.
  void copy(void *to, const void *from, int64_t count) const {
    if (count && to != from)
      keep(queue.copy(to, from, static_cast<size_t>(count)));
  }
  /// Sorts pairs by key, stably, into the second halves of both: keys and values are arrays of 2 n; `scratch` has
  /// sortBytes(n) bytes.
  void sortPairs(int32_t *keys, int32_t *values, int64_t n, void *scratch) const {
    keep(queue.sortPairs(keys, values, n, scratch));
  }
  /// A kernel that was prepared apart; not after one has failed.
  void call(typename Target::KernelType &part, void *const *operands) const {
    if (ofParts.ok())
      ofParts = part.enqueue(operands, frame, handle);
  }

  LaunchStatus status() const { return first; }
  /// Of kernel `name`, and of the parts that it called.
  Status statusOf(const std::string &name) const {
    if (first != kLaunched) // memory: of a thread's own, which a kernel's first launch may ask for
      return makeError(first == kNoLaunchMemory ? Code::budget : Code::internal, 708,
                       "kernel '" + name + "' was not launched: " + queue.textOf(first));
    return ofParts;
  }

private:
  bool isGrid(int64_t blocks) const {
    if (blocks > std::numeric_limits<int32_t>::max()) // as many as a grid may have
      keep(kInvalidGrid);
    return blocks > 0 && blocks <= std::numeric_limits<int32_t>::max(); // none: which CUDA refuses
  }
  void keep(LaunchStatus status) const {
    if (first == kLaunched)
      first = status;
  }
  Frame frame;
  void *space;
  typename Target::Handle handle;
  typename Target::Queue queue;
  mutable LaunchStatus first = kLaunched;
  mutable Status ofParts;
};

/// A kernel from a callable (void *const *operands, const Launcher &).
template <typename Target, typename Fn> class Launched : public Target::KernelType {
public:
  Launched(const KernelSpec &spec, Fn fn)
      : name(spec.name), fn(std::move(fn)), workspaceAt(spec.workspace ? spec.operands.size() : 0) {}
  Status enqueue(void *const *operands, const Frame &frame, typename Target::Handle queue) override {
    const Launcher<Target> launch(frame, workspaceAt ? operands[workspaceAt] : nullptr, queue);
    fn(operands, launch);
    return launch.statusOf(name);
  }

private:
  std::string name;
  Fn fn;
  size_t workspaceAt; ///< 0: none
};

template <typename Target> using Prepared = Result<std::unique_ptr<typename Target::KernelType>>;

/// Makes kernels that another one is made of.
template <typename Target> using PartMaker = std::function<Prepared<Target>(const KernelSpec &)>;

template <typename Target, typename Fn> Prepared<Target> launching(const KernelSpec &spec, Fn fn) {
  return std::unique_ptr<typename Target::KernelType>(std::make_unique<Launched<Target, Fn>>(spec, std::move(fn)));
}

/// Elements per pack of the types of one body.
template <typename... Ts> constexpr int packOf() {
  size_t largest = 1;
  ((largest = sizeof(Ts) > largest ? sizeof(Ts) : largest), ...);
  return static_cast<int>(16 / largest);
}
/// May all be taken in packs of V: addresses are aligned. (Slices are, parts of them may not be.)
template <int V, typename... Ts> bool isAligned(const Ts *...pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % (sizeof(Ts) * V) == 0) && ...);
}

/// f(i) for the elements i of n that block `index` of overElements does.
template <typename Block, typename F> ZC_HD void forElements(Block &block, int64_t index, int64_t n, const F &f) {
  Part part(index, n);
  block.forEach(part.count, [&](int64_t i) { f(part.first + i); });
}

/// The same in packs where they may be taken: f(V, i) of so many elements from i on, and f(1, i) of those left, the
/// counts being types.
template <int V, typename Block, typename F>
ZC_HD void forPacks(Block &block, int64_t index, int64_t n, bool packed, const F &f) {
  Part part(index, n);
  const int64_t whole = packed ? part.count / V * V : 0;
  block.template forEach<V>(whole, [&](int64_t i) { f(std::integral_constant<int, V>(), part.first + i); });
  block.forEach(part.count - whole, [&](int64_t i) { f(std::integral_constant<int, 1>(), part.first + whole + i); });
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
