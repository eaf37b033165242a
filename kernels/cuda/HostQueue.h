//===- HostQueue.h - a host as a target: bodies over HostBlock ------------------------------===//
//
// Kernels for a host are compiled once, for whatever queue they are enqueued on: one that runs at once (HostKernels.h),
// or one that works when its turn comes (test/cuda/double). A queue is told of a launch what a driver is told: a grid,
// a function, the bytes of its arguments.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"

#include <typeinfo>

namespace zc::cuda {

struct HostLaunch {
  const char *name; ///< of the body's type
  unsigned blocks, threads;
  size_t shared;         ///< bytes that a block's threads share, a multiple of 16
  const void *arguments; ///< trivially copied, at a multiple of 16; of the caller, until launch() returns
  size_t bytes;          ///< of them
  void (*block)(const void *arguments, int64_t index, void *shared);
};
/// A block after the other. What they share is full of NaN before each.
void runBlocks(const HostLaunch &launch);

/// Where kernels put their work. Addresses are read and written when it is done, in order.
class HostQueue {
public:
  virtual ~HostQueue() = default;
  virtual LaunchStatus launch(const HostLaunch &launch) = 0;
  virtual LaunchStatus zero(void *bytes, size_t count) = 0;
  virtual LaunchStatus copy(void *to, const void *from, size_t count) = 0;
  /// As sortPairsOnHost; `scratch` has sortBytes(n) bytes.
  virtual LaunchStatus sortPairs(int32_t *keys, int32_t *values, int64_t n, void *scratch) = 0;
  /// Bytes.
  virtual int64_t mostShared() const = 0;
  virtual std::string textOf(LaunchStatus status) const = 0;
};

/// Sorts pairs by key, stably, into the second halves of both; keys and values are arrays of 2 n.
void sortPairsOnHost(int32_t *keys, int32_t *values, int64_t n);

/// Does what it is told before it returns.
class QueueAtOnce : public HostQueue {
public:
  LaunchStatus launch(const HostLaunch &launch) override;
  LaunchStatus zero(void *bytes, size_t count) override;
  LaunchStatus copy(void *to, const void *from, size_t count) override;
  LaunchStatus sortPairs(int32_t *keys, int32_t *values, int64_t n, void *scratch) override;
  int64_t mostShared() const override;
  std::string textOf(LaunchStatus status) const override;
};

using HostKernel = QueuedKernel<HostQueue &>;
using HostKernelRegistry = TargetRegistry<HostKernel>;

/// `Blocks` says how a block is run.
template <typename Blocks> struct OnHost {
  using Handle = HostQueue &;
  using KernelType = HostKernel;

  class Queue {
  public:
    explicit Queue(HostQueue &to) : to(to) {}
    template <int T, typename Body>
    LaunchStatus launch(unsigned blocks, size_t shared, const Body &body, const Frame &frame) const {
      struct Arguments {
        Body body;
        Frame frame;
      };
      static_assert(alignof(Arguments) <= 16);
      const Arguments arguments{body, frame};
      return to.launch({typeid(Body).name(), blocks, T, shared, &arguments, sizeof arguments,
                        [](const void *told, int64_t index, void *bytes) {
                          const auto &own = *static_cast<const Arguments *>(told);
                          Blocks::template run<T>(own.body, index, own.frame, bytes);
                        }});
    }
    LaunchStatus zero(void *bytes, size_t count) const { return to.zero(bytes, count); }
    LaunchStatus copy(void *into, const void *from, size_t count) const { return to.copy(into, from, count); }
    LaunchStatus sortPairs(int32_t *keys, int32_t *values, int64_t n, void *scratch) const {
      return to.sortPairs(keys, values, n, scratch);
    }
    int64_t mostShared() const { return to.mostShared(); }
    std::string textOf(LaunchStatus status) const { return to.textOf(status); }

  private:
    HostQueue &to;
  };
};

/// A phase of all threads of a block after the other.
struct InPhases {
  template <int T, typename Body> static void run(const Body &body, int64_t index, const Frame &frame, void *shared) {
    HostBlock<T> block(shared);
    body(block, index, frame);
  }
};
using Host = OnHost<InPhases>;

} // namespace zc::cuda
