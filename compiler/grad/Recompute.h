//===- Recompute.h - what checkpoint-activations is made of --------===//
#pragma once

#include "dialects/graph/Graph.h"

namespace zc {

/// Recomputes, of what lives where the most bytes live, what is made again cheapest per byte; over and over, until the
/// most bytes that live at once are `save` fewer or nothing is left that lowers them. A negative `save` stands for: as
/// long as a byte costs little (what is elementwise, norms, the core of attention; not large products). Number of
/// operations cloned. Source: Korthikanti et al. (arXiv 2205.05198, section 5), with costs in place of names.
size_t recomputeSelectively(graph::ProgramOp program, int64_t save);

} // namespace zc
