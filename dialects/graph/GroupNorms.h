//===- GroupNorms.h - where a norm of groups is one operation ------------------===//
#pragma once

#include <cstdint>

namespace zc::graph {

/// Elements that a channel of a sample has at least: group_norm makes numbers for each channel, which of fewer elements
/// would be as many as these. Those norms are layer norms of rows.
constexpr int64_t kFewestOfChannel = 8;

} // namespace zc::graph
