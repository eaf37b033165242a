//===- Trace.h - when each step ran -------------------------------------------===//
#pragma once

#include <cstdint>

namespace zc {

/// One executed step. The newest `traceCapacity` events of each queue are kept.
struct TraceEvent {
  int64_t begin = 0; ///< ns of CLOCK_MONOTONIC, when its waits were over
  int64_t end = 0;   ///< ns
  int64_t step = 0;  ///< optimizer step
  uint32_t micro = 0;
  uint32_t index = 0;  ///< of the step in its section; names and kernels are in the plan
  uint8_t section = 0; ///< 0 micro, 1 update
  uint8_t queue = 0;   ///< planpb::Queue
};

} // namespace zc
