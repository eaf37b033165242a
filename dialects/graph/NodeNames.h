//===- NodeNames.h - operations' locations: the ONNX nodes they come from ---------------------===//
//
// An operation's location is the name of its node. In texts of the IR that is MLIR's NameLoc; what import makes holds a
// pointer to the name instead (an OpaqueLoc), which is in no table of strings: of a large graph the two tables that a
// NameLoc stands in take a fifth of the time to compile. Whoever wants a name asks nodeOf, and whoever prints the IR
// spells the locations out before.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectInterface.h"
#include "llvm/ADT/SetVector.h"

namespace zc::graph {

/// The names of the nodes that were imported into a context; of the graph dialect.
class NodeNames : public mlir::DialectInterface::Base<NodeNames> {
public:
  explicit NodeNames(mlir::Dialect *dialect) : Base(dialect) {}
  /// Of a context that has loaded the graph dialect.
  static NodeNames &of(mlir::MLIRContext *context);

  /// A location for the operations of one node. Two of the same name are two locations, and one node.
  mlir::Location makeLocation(const llvm::Twine &name);

private:
  llvm::BumpPtrAllocator allocator;
};

/// The node that a location names; empty where it names none, or several.
llvm::StringRef nodeOf(mlir::Location location);

/// The nodes that a location names, in order, each once.
llvm::SetVector<llvm::StringRef> nodesOf(mlir::Location location);

/// Makes every location of the module's operations one that MLIR prints.
void spellLocations(mlir::ModuleOp module);

} // namespace zc::graph
