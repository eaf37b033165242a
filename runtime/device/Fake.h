//===- Fake.h - a device of threads ---------------------------------------------===//
//
// For machines without a GPU, and for tests: streams are threads that idle at random, so that only what waits and
// events say is in order; copies and kernels run late; the device's addresses cannot be read by the host. Kernels are
// those of a registry. Two kernels that touch the same bytes at once, one of them writing, are a fault: a wait is
// missing. What is captured is done late and again and again, as on a GPU; what cannot be captured there is an error.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/Stream.h"

#include <atomic>

namespace zc {

struct FakeOptions {
  uint64_t seed = 0; ///< of the order
  int rank = 0;      ///< for failpoints
  /// Counts what the host asks of streams, a graph as one; null: nobody wants to know. Outlives the device.
  std::atomic<uint64_t> *enqueued = nullptr;
};

/// `registry` must outlive the device.
std::unique_ptr<Device> makeFakeDevice(const KernelRegistry &registry, const FakeOptions &options);

} // namespace zc
