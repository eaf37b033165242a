//===- StepBuilder.h - the steps of operations of the zero level -------------------===//
#pragma once

#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Placement.h"
#include "compiler/schedule/Publishing.h"

namespace zc {

/// Turns placed operations into plan.step ops at the end of a section: what an operation says of its step in values, in
/// slices and queues.
class StepBuilder {
public:
  explicit StepBuilder(mlir::ModuleOp module);

  /// Steps of `program` into a new section. Fails, with an error on it, where an operation is no ScheduledOp.
  mlir::FailureOr<plan::SectionOp> lowerProgram(graph::ProgramOp program);

private:
  void loadInputs(graph::ProgramOp program);
  mlir::LogicalResult lower(mlir::Operation *op);
  plan::StepOp create(mlir::Operation *op, const zero::Step &step);
  plan::StepOp create(mlir::Operation *op, llvm::StringRef kernel, int64_t inputs,
                      llvm::ArrayRef<mlir::Attribute> operands, llvm::ArrayRef<mlir::NamedAttribute> attributes);
  /// Where plan-memory put it.
  plan::OperandAttr placeOf(const zero::StepOperand &operand);
  mlir::FlatSymbolRefAttr sliceOf(const zero::State &state);

  mlir::OpBuilder builder;
  MachineModel machine;
  zero::StepContext context;
  mlir::SymbolTableCollection symbols;
  std::array<mlir::FlatSymbolRefAttr, plan::getMaxEnumValForMetric() + 1> metrics; ///< their slices
  llvm::DenseSet<mlir::Operation *> publishing;                                    ///< of the program that is lowered
};

} // namespace zc
