//===- View.h - what operations read and write through views --------------------------------===//
//
// An operation that is `Strided` may have `views`: its operands are then whole tensors, of which it sees what its
// description calls its operands, and its results whole tensors, in which it writes what its description calls its
// results. Constraints, of all such operations, are those of base/StridedView.h, and
//
//   view_c5  views have the shapes, and the tensors that they are in the element types, of what they stand for
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/StridedView.h"
#include "dialects/graph/Infer.h"

namespace zc::graph {

llvm::SmallVector<zc::StridedView> toStridedViews(ViewsAttr views);
ViewsAttr toViewsAttr(mlir::MLIRContext *context, llvm::ArrayRef<zc::StridedView> views,
                      llvm::ArrayRef<mlir::Type> results);

/// The types of the operands that the op's description has, behind `views` (null: of the operands). Fails with an
/// error.
mlir::FailureOr<llvm::SmallVector<mlir::RankedTensorType>> seenTypes(const Infer &infer, mlir::ValueRange operands,
                                                                     ViewsAttr views);
/// Infers the op's results of the types of those that its description has.
mlir::LogicalResult inferSeen(Infer &infer, llvm::ArrayRef<mlir::Type> seen, mlir::ValueRange operands,
                              ViewsAttr views);
/// Both, of an op whose results' types are its own to say: those that it has, or of the views, are what it says. Fails
/// with an error at the op.
mlir::FailureOr<llvm::SmallVector<mlir::RankedTensorType>> seenOf(mlir::Operation *op);
/// Is element i of what an op sees of a tensor, operands first, then results, element i of that?
bool isSeenWhole(mlir::Operation *op, unsigned tensor);
/// The shape of operand `index` of the op's description.
llvm::ArrayRef<int64_t> seenShape(mlir::Operation *op, unsigned index);
/// Bytes read and written through them, of an op that has views; of a tensor at most all of its own.
double bytesSeen(mlir::Operation *op, ViewsAttr views);

} // namespace zc::graph
