//===- Scope.h - nodes with names of their own ----------------------------------===//
#pragma once

#include "compiler/import/node/NodeContext.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace zc::importer {

/// Which nodes of a list its outputs need, in order, and which of their outputs are read.
struct Body {
  std::vector<int> live;
  llvm::StringSet<> usedOfSeveral; ///< of nodes with more than one output

  /// Of a live node.
  bool uses(const onnxpb::Node &node, int output) const {
    return node.output_size() == 1 || usedOfSeveral.contains(node.output(output));
  }
};
Body findLive(const NodeList &nodes, llvm::ArrayRef<std::string> outputs);

/// The model's graph, the body of an If, Loop or Scan, or a function's body, while it is imported.
struct Scope {
  const Scope *outer = nullptr; ///< whose names are visible too; null for the model and for functions
  llvm::StringMap<Binding, llvm::BumpPtrAllocator> bindings;
  llvm::StringMap<const onnxpb::Tensor *> initializers; ///< of a subgraph
  const OpsetList *opsets = nullptr;
  const Body *body = nullptr;
  std::string prefix;                 ///< of labels and stored tensors: "", "/encoder/", ...
  const onnxpb::Node *call = nullptr; ///< of a function: gives values to its attributes
  const onnxpb::Function *function = nullptr;
  int depth = 0;

  /// The nearest binding, or null.
  const Binding *find(llvm::StringRef name) const {
    for (const Scope *scope = this; scope; scope = scope->outer)
      if (auto found = scope->bindings.find(name); found != scope->bindings.end())
        return &found->second;
    return nullptr;
  }
  /// Whether names of the model's graph are visible.
  bool seesModel() const { return outer ? outer->seesModel() : !function; }
};

/// Copies `node`, a node of the function's body that may name attributes of the function, with the values the call
/// gives them, also in subgraphs.
bool namesAttributes(const onnxpb::Node &node);
onnxpb::Node bindAttributes(const onnxpb::Node &node, const onnxpb::Function &function, const onnxpb::Node &call);

/// The model's local functions.
class Functions {
public:
  explicit Functions(const onnxpb::Model &model);
  /// The one that a node calls, or null.
  const onnxpb::Function *of(const onnxpb::Node &node) const;

private:
  llvm::StringMap<const onnxpb::Function *> functions; ///< by functionKey
};

/// The version of an operator set by a function's or the model's imports; a function may rely on the model's. 0: none.
int64_t opsetOf(const std::string &domain, const OpsetList &opsets, const onnxpb::Model &model);

llvm::SmallVector<std::string> outputsOf(const onnxpb::Graph &graph);

} // namespace zc::importer
