//===- Raise.h - the recognisers --------------------------------------------------===//
//
// One file per form. A recogniser starts at the last operation of the form and follows operands; operations that others
// use as well stay in place, so a rewrite is never wrong, at most of no use.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/IR/PatternMatch.h"

namespace zc::importer {

void addSimplifyPatterns(mlir::RewritePatternSet &patterns);
void addLinearPatterns(mlir::RewritePatternSet &patterns);
void addActivationPatterns(mlir::RewritePatternSet &patterns);
void addNormPatterns(mlir::RewritePatternSet &patterns);
void addGroupNormPatterns(mlir::RewritePatternSet &patterns);
void addExtremumPatterns(mlir::RewritePatternSet &patterns);
void addSoftmaxPatterns(mlir::RewritePatternSet &patterns);
void addHeadPatterns(mlir::RewritePatternSet &patterns);
/// `turns`: also where operands must be transposed for it.
void addAttentionPatterns(mlir::RewritePatternSet &patterns, bool turns);
void addLossPatterns(mlir::RewritePatternSet &patterns);
void addRotationPatterns(mlir::RewritePatternSet &patterns);

/// Afterwards: that attention keeps its scores, where these are large and its form was not recognised.
void remarkOnScores(graph::ProgramOp program);

} // namespace zc::importer
