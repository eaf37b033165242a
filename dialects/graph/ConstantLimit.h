//===- ConstantLimit.h - how large a constant may be --------------------------------===//
#pragma once

#include <cstdint>

namespace zc::graph {

/// Elements that differ of a graph.constant (`constant_c3`): what is larger is a parameter, whose bytes stay in files.
inline constexpr int64_t kMostConstantElements = int64_t(1) << 22;

} // namespace zc::graph
