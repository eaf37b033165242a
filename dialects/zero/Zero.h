//===- Zero.h - the zero dialect: buckets, shards, collectives ---------------===//
#pragma once

#include "dialects/zero/Scheduled.h"

#include "dialects/zero/ZeroDialect.h.inc"
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

/// Of the module's mesh; there is one of them.
/// The module's mesh; one rank without.
Mesh meshOf(mlir::ModuleOp module);
/// Axes of the mesh by their names; the data axes where there are none.
AxisSet axesOf(mlir::ArrayAttr names, const Mesh &mesh);
mlir::ArrayAttr namesOf(mlir::MLIRContext *context, AxisSet axes, const Mesh &mesh);
/// By how many bytes, by axis of the mesh, parts of so many lie apart that stand in the order of places along `axes`.
llvm::SmallVector<int64_t, 2> stridesOf(const Mesh &mesh, AxisSet axes, int64_t bytes);
void addStrides(llvm::SmallVectorImpl<int64_t> &strides, llvm::ArrayRef<int64_t> more);
/// The part of a buffer of the bucket's elements whose squares this rank adds to the norm: all of it, or, where ranks
/// of the model axes have the same elements, its share.
mlir::Value normShare(mlir::OpBuilder &builder, mlir::Location location, BucketOp bucket, mlir::Value buffer,
                      const Mesh &mesh);
/// The sum of all ranks' partial norms.
mlir::Value sumOverRanks(mlir::OpBuilder &builder, mlir::Location location, mlir::Value partial, const Mesh &mesh);
/// Shards that the bucket is cut into, or would be.
inline int64_t cutsOf(BucketOp bucket, const Mesh &mesh) { return mesh.size(axesOf(bucket.getAxesAttr(), mesh)); }
/// All of what a rank stores of `what`, or its own shard of it.
StorageOp createStorage(mlir::OpBuilder &builder, mlir::Location location, BucketOp bucket, Storage what,
                        const Mesh &mesh, bool own = false);
/// What quantized gradients have lost: of the bucket, and of a node's sums of it.
inline bool isResidual(Storage what) { return what == Storage::residual1 || what == Storage::residual2; }
/// Elements that a rank keeps of `what`.
int64_t storedElements(BucketOp bucket, Storage what, const Mesh &mesh);
/// Where the bytes of a tensor or buffer are.
Tier tierOf(mlir::Type type);
/// Is `op` a view of a tensor or buffer?
bool isView(mlir::Operation *op);
/// The value whose bytes `value` shows, behind views of tensors and of buffers; itself if it is no view.
mlir::Value viewedValue(mlir::Value value);
/// Has the type 16 bits, so that sums of it may be kept in f32?
bool hasWiderSums(mlir::Type type);
/// Micro-steps per step.
int64_t accumulationOf(mlir::ModuleOp module);
/// How often a step executes the micro program: once for each micro-step, or once for all of them (zero-vertical).
int64_t microExecutionsOf(mlir::ModuleOp module);
/// Micro-steps that stand in the micro program: one, or all.
int64_t microStepsOf(mlir::ModuleOp module);
/// Makes those operations of the graph level that are no kernels and stand in programs of this one ScheduledOps.
void attachScheduleOfGraph(mlir::MLIRContext &context);
/// The flat tensor that a value of tensor or buffer type is in memory.
mlir::RankedTensorType storedType(mlir::Type type);
/// Bytes of a value of tensor or buffer type.
inline int64_t bytesOf(mlir::Type type) { return graph::bytesOf(storedType(type)); }
} // namespace zc::zero
