//===- Samples.h - whether samples are computed apart --------------------------===//
#pragma once

#include "dialects/graph/Graph.h"

namespace zc::importer {

/// Whether each row of the logits and labels of `entropy` is computed from one sample alone, a row of the inputs: found
/// by cutting the batch into as many parts as it has samples, by the operations' own rules (graph/Cut.h). False also
/// where an operation has no rule along samples.
bool computesSamplesApart(graph::ProgramOp program, graph::CrossEntropyOp entropy);

} // namespace zc::importer
