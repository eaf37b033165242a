//===- Plan.h - the plan dialect: one to one with the plan file --------------===//
#pragma once

#include "dialects/graph/Graph.h"
#include "runtime/plan/Machine.h"

namespace zc {
llvm::hash_code hash_value(const MachineModel &machine); ///< for attributes that hold one
} // namespace zc

#include "dialects/plan/PlanDialect.h.inc"
#include "dialects/plan/PlanEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"
