//===- Publishing.h - what a delayed update does to show its result ------------------===//
#pragma once

#include "dialects/zero/Zero.h"

#include "llvm/ADT/DenseSet.h"

namespace zc {

/// The operations of an update program that make the weights of the step before the parameters, on whatever way: those
/// that write parameters, and those that write what only such operations read. Empty unless updates are delayed.
llvm::DenseSet<mlir::Operation *> publishingOperations(graph::ProgramOp program);

} // namespace zc
