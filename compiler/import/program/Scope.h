//===- Scope.h - nodes with names of their own ----------------------------------===//
#pragma once

#include "compiler/import/node/NodeContext.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <deque>
#include <string>
#include <vector>

namespace zc::importer {

/// Which nodes of a list its outputs need, in order, and which of their outputs are read.
struct Body {
  std::vector<int> live;
  llvm::DenseSet<uint32_t> usedOfSeveral; ///< names, of nodes with more than one output

  /// Of a live node.
  bool uses(const onnxpb::Node &node, int output) const {
    return node.output_size() == 1 || usedOfSeveral.contains(outputOf(node, output).number);
  }
};
Body findLive(const NodeList &nodes, llvm::ArrayRef<std::string> outputs, const ValueNames &names);

/// What names stand for, by their numbers.
class Bindings {
public:
  /// Null for a name that is not bound.
  const Binding *find(uint32_t name) const {
    auto place = places.find(name);
    return place == places.end() ? nullptr : &values[place->second];
  }
  Binding &operator[](uint32_t name) {
    auto [place, isNew] = places.try_emplace(name, static_cast<uint32_t>(values.size()));
    return isNew ? values.emplace_back() : values[place->second];
  }
  void clear() {
    places.clear();
    values.clear();
  }

private:
  llvm::DenseMap<uint32_t, uint32_t> places; ///< in `values`
  std::deque<Binding> values;
};

/// The model's graph, the body of an If, Loop or Scan, or a function's body, while it is imported.
struct Scope {
  const Scope *outer = nullptr; ///< whose names are visible too; null for the model and for functions
  Bindings bindings;
  llvm::StringMap<const onnxpb::Tensor *> initializers; ///< of a subgraph
  /// Initializers of the model that a function's inputs, and outputs of nodes, stand for.
  llvm::StringMap<std::string> stored;
  const OpsetList *opsets = nullptr;
  const Body *body = nullptr;
  std::string prefix;                 ///< of labels and stored tensors: "", "/encoder/", ...
  const onnxpb::Node *call = nullptr; ///< of a function: gives values to its attributes
  const onnxpb::Function *function = nullptr;
  int depth = 0;

  /// The nearest binding, or null.
  const Binding *find(uint32_t name) const {
    for (const Scope *scope = this; scope; scope = scope->outer)
      if (const Binding *found = scope->bindings.find(name))
        return found;
    return nullptr;
  }
  /// Whether names of the model's graph are visible.
  bool seesModel() const { return outer ? outer->seesModel() : !function; }
};

/// Does `node`, of a function's body, take attributes from the function's call, also in subgraphs?
bool namesAttributes(const onnxpb::Node &node);
/// A copy of such a node, with the values that `call` gives them.
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
