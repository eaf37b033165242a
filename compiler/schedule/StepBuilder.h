//===- StepBuilder.h - the steps of an operation of the zero level -----------------===//
#pragma once

#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Placement.h"
#include "compiler/schedule/Publishing.h"

namespace zc {

/// Turns placed operations into plan.step ops at the end of a section. Views and lifetimes make no step.
class StepBuilder {
public:
  StepBuilder(mlir::ModuleOp module, int64_t worldSize, int64_t stage);

  /// Steps of `program` into a new section named `name`.
  plan::SectionOp lowerProgram(graph::ProgramOp program, llvm::StringRef name);

private:
  using Operands = llvm::SmallVector<mlir::Attribute>;
  void lower(mlir::Operation *op);
  /// Also shares the operation's `plan.seconds` among its steps.
  void lowerTimed(mlir::Operation *op);
  void lowerKernel(graph::KernelOp op);
  void lower(zero::GatherOp op);
  void lower(zero::GradBufferOp op);
  void lower(zero::PutOp op);
  void lower(zero::ReduceScatterOp op);
  void lower(zero::AccumulateOp op);
  void lower(zero::AllGatherOp op);
  void lower(zero::AllToAllOp op);
  void lower(zero::QuantizeOp op);
  void lower(zero::DequantizeOp op);
  void lower(zero::DequantizeSumQuantizeOp op);
  void lower(zero::DequantizeSumOp op);
  void lower(zero::OwnPartOp op);
  void lower(zero::ReorderOp op);
  void lower(zero::FetchOp op);
  void lower(zero::EvictOp op);
  void lower(zero::FillOp op);
  void lower(zero::NormPartialOp op);
  void lower(zero::AllReduceOp op);
  void lower(zero::ClipFactorOp op);
  void lower(zero::UpdateOp op);
  void lower(zero::PublishOp op);
  void lower(zero::RecordLossOp op);
  void lower(zero::ReduceLossOp op);
  void lower(graph::AssignOp op);
  void lower(graph::OutputOp op);

  plan::StepOp step(mlir::Operation *op, llvm::StringRef kernel, int64_t inputs, Operands operands,
                    llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  /// Where plan-memory put `value`.
  plan::OperandAttr placeOf(mlir::Value value, plan::Access access);
  bool samePlace(mlir::Value a, mlir::Value b);
  void lowerCopy(mlir::Operation *op, mlir::Value source, mlir::Value target);
  /// All of a slice.
  plan::OperandAttr whole(mlir::FlatSymbolRefAttr slice, plan::Access access, int64_t elements, mlir::Type type);
  plan::OperandAttr lossSums(bool weighted);
  void lowerPieces(mlir::Operation *op, mlir::Value input, mlir::Value output, plan::Access access,
                   mlir::Value residual = {});
  mlir::NamedAttribute traffic(llvm::StringRef counter);
  /// What a collective along `axis` says: its axis, unless it is all ranks, and its counter.
  llvm::SmallVector<mlir::NamedAttribute> along(zero::Axis axis, llvm::StringRef counter);
  /// Stage 0 counts both halves of its all-reduce as one.
  llvm::StringRef gradientCounter() const { return stage == 0 ? "all_reduce" : "reduce_scatter"; }

  mlir::OpBuilder builder;
  MachineModel machine;
  llvm::StringMap<zero::BucketOp> buckets;
  int64_t worldSize, stage;
  int64_t microSteps;                           ///< that stand in the micro program
  llvm::DenseSet<mlir::Operation *> publishing; ///< of the program that is lowered
  int64_t numOutputs = 0;                       ///< numbered in the order of their steps
};

} // namespace zc
