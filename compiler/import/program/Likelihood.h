//===- Likelihood.h - losses whose exponential is a perplexity ----------------===//
#pragma once

#include "dialects/graph/Graph.h"

namespace zc::importer {

/// Says in `graph.outputs` of `program`, where it has one, whether its loss is the mean negative log-likelihood of a
/// label: a cross-entropy that is a mean, or the sum of one over the number of its labels, whether that is a constant
/// or comes with the batch. With another factor or summand it is none. Also whether it is by labels: a mean with a
/// label that is ignored, of samples that are computed apart (Samples.h).
void markLikelihood(graph::ProgramOp program);

} // namespace zc::importer
