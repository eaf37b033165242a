//===- Sharded.h - a node test inside a training plan --------------------------===//
#pragma once

#include "base/Status.h"
#include "mlir/IR/BuiltinOps.h"
#include "test/conformance/NodeTest.h"

namespace zc::test {

/// Compiles an imported forward-only module into a plan for two ranks at ZeRO stage 3 and runs one step of it, with the
/// same inputs on both. Gives the outputs of each rank.
Result<std::vector<std::vector<NodeValue>>> runSharded(mlir::ModuleOp module, const std::vector<NodeValue> &inputs);

} // namespace zc::test
