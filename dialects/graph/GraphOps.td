//===- GraphOps.td - all operations of the graph dialect ----*- tablegen -*-===//
#ifndef ZC_GRAPH_OPS
#define ZC_GRAPH_OPS

include "dialects/graph/GraphStructure.td"
include "dialects/graph/GraphElementwise.td"
include "dialects/graph/GraphTensor.td"
include "dialects/graph/GraphIndexing.td"
include "dialects/graph/GraphMath.td"
include "dialects/graph/GraphVision.td"
include "dialects/graph/GraphModel.td"

#endif // ZC_GRAPH_OPS
