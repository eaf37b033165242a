//===- Publishing.cpp - what a delayed update does to show its result ----------------===//

#include "compiler/schedule/Publishing.h"
#include "compiler/schedule/MemoryUse.h"
#include "dialects/zero/Execution.h"

using namespace mlir;
using namespace zc;

llvm::DenseSet<Operation *> zc::publishingOperations(graph::ProgramOp program) {
  llvm::DenseSet<Operation *> publishing;
  if (program.getPhase() != graph::Phase::update || !zero::executionOf(program->getParentOfType<ModuleOp>()).delayAfter)
    return publishing;
  // Backward: an operation publishes if it writes parameters, or a temporary buffer that one further down reads.
  llvm::DenseSet<MemoryObject> wanted;
  Makers makers;
  auto isTemporary = [](Value value) {
    Value buffer = zero::viewedValue(value);
    return isa<zero::BufferType>(buffer.getType()) && !buffer.getDefiningOp<zero::StorageOp>();
  };
  auto isWanted = [&](Value value) {
    auto storage = zero::viewedValue(value).getDefiningOp<zero::StorageOp>();
    return storage ? storage.getWhat() == zero::Storage::parameters : wanted.contains(makers.objectOf(value));
  };
  for (Operation &op : llvm::reverse(program.getBlock())) {
    if (zero::isView(&op) || isAddress(&op))
      continue;
    bool publishes = llvm::any_of(op.getResults(), isWanted) || llvm::any_of(op.getOperands(), [&](Value operand) {
                       return mutates(&op, operand) && isWanted(operand);
                     });
    if (!publishes)
      continue;
    publishing.insert(&op);
    for (Value operand : op.getOperands())
      if (isTemporary(operand) && !mutates(&op, operand))
        wanted.insert(makers.objectOf(operand));
  }
  return publishing;
}
