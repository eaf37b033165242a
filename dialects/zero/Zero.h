//===- Zero.h - the zero dialect: buckets, shards, collectives ---------------===//
#pragma once

#include "dialects/graph/Graph.h"

#include "dialects/zero/ZeroDialect.h.inc"
#include "dialects/zero/ZeroEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/zero/ZeroAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/zero/ZeroTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/zero/ZeroOps.h.inc"

namespace zc::zero {
/// Members of a bucket start, and shards are cut, at multiples of this many elements: one block of the exact norm.
constexpr int64_t kAlignment = 64;
/// Limbs of the exact sum of squares (kernels/README.md).
constexpr int64_t kNormLimbs = 24;
} // namespace zc::zero
