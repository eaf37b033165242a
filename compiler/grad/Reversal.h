//===- Reversal.h - parts of rows in the other order --------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"

#include <optional>

namespace zc {

/// Rows of `input` whose `parts` are in the other order in `result`: a reshape, a slice, a reshape, each read by the
/// next alone.
struct Reversal {
  graph::SliceOp turn;
  int64_t parts;
  mlir::Value input, result;
};

/// The one that `turn` is the slice of.
std::optional<Reversal> reversalOf(graph::SliceOp turn);

} // namespace zc
