//===- ChromeTrace.h - steps over time, for chrome://tracing and Perfetto -----------------===//
#pragma once

#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zc {

/// One execution of a step of the plan, measured or planned.
struct TraceSpan {
  int rank = 0;
  uint32_t section = 0;         ///< 0 micro, 1 update
  uint32_t index = 0;           ///< of the step in its section
  int64_t step = 0;             ///< training step, from 1
  uint32_t micro = 0;           ///< micro-step, from 0; of no meaning in an update
  double begin = 0, length = 0; ///< microseconds, of any clock
};

/// A trace in Chrome's JSON format that begins at 0: a process per rank, in it a lane per queue that has work, always
/// in the same order, so that a planned and a measured trace can be laid side by side. A span is named by its kernel;
/// its arguments are the ONNX node, the training step and the micro-step.
std::string chromeTrace(const planpb::Plan &plan, const std::vector<TraceSpan> &spans);

} // namespace zc
