//===- Fold.h - evaluating graph operations on constants ----------------------===//
//
// Shape arithmetic of an exported graph arrives as ordinary operations. Handlers build graph ops for them; those whose
// operands are all known are evaluated here and replaced by constants: by one evaluator per graph op, in a table, of
// others by their kernels. Semantics are those of the ops' descriptions, floats rounded after each op.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/import/base/HostTensor.h"
#include "dialects/graph/Graph.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <string>

namespace zc::importer {

using Operands = llvm::ArrayRef<const HostTensor *>;

/// Fills `out`, whose dtype, dims, splat and storage are set. False: not evaluated; with `error` set, the operation is
/// wrong for these values (an index out of range).
using FoldFn = std::function<bool(mlir::Operation *op, Operands in, HostTensor &out, std::string &error)>;

struct Fold {
  FoldFn evaluate;
  bool keepsSplats = false; ///< splat operands give a splat result of any size
};

/// Null if the operation cannot be evaluated.
const Fold *findFold(llvm::StringRef opName);

/// Fills `results`, shaped but not allocated, by the op's reference kernel. `done` stays false where it takes no such
/// operands. Errors: an index out of range.
Status evaluateByKernel(graph::KernelOp op, Operands operands, llvm::MutableArrayRef<HostTensor> results, bool &done);

/// Rows of the table, one function per file.
using FoldTable = llvm::StringMap<Fold>;
void addElementwiseFolds(FoldTable &table);
void addMovementFolds(FoldTable &table);
void addReductionFolds(FoldTable &table);

} // namespace zc::importer
