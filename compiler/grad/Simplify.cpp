//===- Simplify.cpp - operations in their canonical form -------------------------------------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Rewrite.h"

namespace zc {

#define GEN_PASS_DEF_SIMPLIFY
#include "compiler/grad/Passes.h.inc"

namespace {

struct Simplify : impl::SimplifyBase<Simplify> {
  void runOnOperation() override { graph::canonicalize(getOperation()); }
};

} // namespace
} // namespace zc
