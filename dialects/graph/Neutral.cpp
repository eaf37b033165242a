//===- Neutral.cpp - elements that mean nothing to what computes across them ----------------===//
#include "dialects/graph/Graph.h"

#include <limits>

using namespace zc::graph;

constexpr double infinity = std::numeric_limits<double>::infinity();

double MatmulOp::getNeutralElement() { return 0; }
double ReduceSumOp::getNeutralElement() { return 0; }
double ReduceProdOp::getNeutralElement() { return 1; }
double ReduceMaxOp::getNeutralElement() { return -infinity; }
double ReduceMinOp::getNeutralElement() { return infinity; }
double CumSumOp::getNeutralElement() { return 0; }
double CumProdOp::getNeutralElement() { return 1; }
double SoftmaxOp::getNeutralElement() { return -infinity; }
double LogSoftmaxOp::getNeutralElement() { return -infinity; }
