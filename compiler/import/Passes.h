//===- Passes.h - recognising what exporters took apart -------------------------===//
#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace zc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/import/Passes.h.inc"

} // namespace zc
