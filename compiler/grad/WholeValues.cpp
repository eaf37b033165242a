//===- WholeValues.cpp - what the ranks of the model axis have in common -----------------===//

#include "compiler/grad/WholeValues.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace zc::graph;

llvm::DenseSet<Value> zc::wholeValues(ProgramOp program) {
  llvm::StringSet<> cut; // parameters
  for (auto parameter : program->getParentOfType<ModuleOp>().getOps<ParameterOp>())
    if (parameter.getCutAttr())
      cut.insert(parameter.getSymName());
  llvm::DenseSet<Value> whole;
  for (BlockArgument argument : program.getBlock().getArguments())
    whole.insert(argument);
  for (Operation &op : program.getBlock()) {
    auto read = dyn_cast<ReadOp>(op);
    // Of what else moves elements between ranks it is not known: then each has its own, and nothing is cut that is not
    // whole.
    bool isWhole = op.hasTrait<MakesWhole>() ||
                   (!isCollective(&op) && !op.hasTrait<MakesParts>() && !(read && cut.contains(read.getParameter())) &&
                    llvm::all_of(op.getOperands(), [&](Value operand) { return whole.contains(operand); }));
    if (isWhole)
      whole.insert(op.result_begin(), op.result_end());
  }
  return whole;
}
