//===- MemoryPage.h - a plan's memory over its steps, to look at --------------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"

#include <string>

namespace zc {

/// One HTML page that needs nothing else: for each tier the bytes in use at every step, stacked by class, the peak
/// marked with its ONNX node, and the largest slices in use there. The numbers stand in it as one JSON object (script
/// "plan"). The plan is verified and has its report.
std::string memoryPage(const planpb::Plan &plan);

} // namespace zc
