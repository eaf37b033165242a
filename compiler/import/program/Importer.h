//===- Importer.h - the state of one import ------------------------------------===//
#pragma once

#include "compiler/import/base/Errors.h"
#include "compiler/import/base/Options.h"
#include "compiler/import/file/Initializer.h"
#include "compiler/import/file/ModelFile.h"
#include "compiler/import/parameters/Contents.h"
#include "compiler/import/parameters/Origins.h"
#include "compiler/import/program/Scope.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <deque>
#include <map>
#include <memory>

namespace zc::importer {

struct NamedLoss;

/// Builds the module node by node. `run` once.
class Importer {
public:
  Importer(mlir::MLIRContext &context, ModelFile &file, const ImportOptions &options);
  ~Importer();
  Result<mlir::OwningOpRef<mlir::ModuleOp>> run();

  //===-- for handlers, through Node -------------------------------------------===//
  const ImportOptions options;
  ModelFile &file;
  mlir::OpBuilder builder;

  /// The value of a name: a node's result, a graph input, or an initializer (then read or made constant at `loc`).
  Result<Binding> lookup(const std::string &name, mlir::Location loc);
  void bind(const std::string &name, Binding binding) { scope->bindings[name] = std::move(binding); }
  /// Whether a name stands for nothing.
  bool isEmpty(const std::string &name) const {
    const Binding *bound = scope->find(name);
    return bound && bound->isEmpty;
  }
  /// The nodes of a subgraph once more, with its inputs bound; gives its outputs. `label`: of the node it belongs to.
  Result<llvm::SmallVector<Binding>> importGraph(const onnxpb::Graph &graph, llvm::ArrayRef<Binding> inputs,
                                                 const std::string &label, mlir::Location loc);
  /// Null unless known when compiling.
  const HostTensor *constantOf(mlir::Value value) const;
  mlir::Value makeConstant(HostTensor tensor, mlir::Location loc);
  /// Whether handlers may make another constant of so many elements (ImportLimits::foldingWork).
  bool maySpend(int64_t elements) { return spend(tableWork, elements); }
  /// Builds an op, infers its types, checks it, evaluates it if its operands are known.
  Result<llvm::SmallVector<mlir::Value>> makeOp(llvm::StringRef name, mlir::ValueRange operands,
                                                const mlir::NamedAttrList &attributes, mlir::Location loc);
  /// A value whose bytes stay in the file, for tensors too large to be constants.
  Result<mlir::Value> makeStored(const TensorInfo &info, const std::string &name, mlir::Location loc);
  /// The tensor of a Constant node or initializer: constant if small, else stored.
  Result<mlir::Value> makeTensor(const onnxpb::Tensor &tensor, const std::string &name, mlir::Location loc);
  bool isInitializer(const std::string &name) const { return initializers.count(name) != 0; }
  /// The present value of an initializer that the step changes; a value of it that is known when compiling is not used.
  Result<mlir::Value> readState(const std::string &name, mlir::Location loc);
  /// From here on the initializer `name`, which was read as state, is `value`. That makes it a buffer.
  void assignState(const std::string &name, mlir::Value value, mlir::Location loc);
  /// The name of a tensor that a node of the current scope stores.
  std::string storedName(const std::string &name) const { return scope->prefix + name; }
  /// The row of an embedding that gets no gradient: what --padding-idx says, or `traced`, the exporter's word, or the
  /// one row of zeros that a fresh padding_idx leaves (told in a warning).
  std::optional<int64_t> paddingOf(const std::string &name, std::optional<int64_t> traced);
  /// The operator's definition says that this initializer is a weight.
  void noteWeight(const std::string &name, std::string evidence) { origins.noteWeight(name, std::move(evidence)); }
  int64_t nextDropoutId() { return dropouts++; }
  int64_t frozenBatchNorms = 0; ///< in evaluation mode although the graph is trained
  int64_t foldedBatchNorms = 0; ///< gone from the file
  int64_t inactiveDropouts = 0; ///< identities although their ratio is not zero

private:
  /// What stands for the second name of a tie.
  struct Tied {
    std::string to;
    bool transposed = false;
  };
  /// The loss of --loss-op.
  struct Appended {
    const NamedLoss *loss = nullptr;
    std::string out, target;
  };
  Status findLiveNodes();
  Status checkOperators();
  void findMissing(std::map<std::string, std::vector<std::string>> &missing);
  Status bindInputs();
  Status importNode(const onnxpb::Node &node, int index);
  Status importNodes(const NodeList &nodes);
  Status importCall(const onnxpb::Function &function, const onnxpb::Node &call, int index);
  Status enter(Scope &inner, const std::string &label);
  Status countNode();
  const onnxpb::Node &bindCall(const onnxpb::Node &node);
  const onnxpb::Function *functionOf(const onnxpb::Node &node) const;
  const Body &bodyOf(const NodeList &nodes, llvm::ArrayRef<std::string> outputs);
  bool returns(const std::string &name) const;
  Status collectOutputs(mlir::Value appendedLoss, llvm::SmallVector<mlir::Value> &results);
  Status finishProgram();
  Result<int> chooseLoss();
  Status verifyModule();
  void warnOfHabits();
  bool isValueName(const std::string &name) const;
  Status parseLossOp();
  Result<mlir::Value> targetOf(mlir::Value out);
  Result<mlir::Value> appendLoss();
  Status resolveTies();
  llvm::SmallVector<llvm::StringRef> tiesTo(llvm::StringRef name) const;
  std::optional<int64_t> findPadding(const std::string &name);
  Result<mlir::Value> readTied(const Tied &tie, mlir::Location loc);
  Result<mlir::Value> readStored(const std::string &name, mlir::Location loc);
  int64_t opsetOf(const std::string &domain, const OpsetList &opsets) const;
  bool isConstantInitializer(const onnxpb::Tensor &tensor) const;
  bool spend(int64_t &work, int64_t elements) const;
  llvm::SmallVector<mlir::Value> tryFold(mlir::Operation *op, Status &status);
  llvm::SmallVector<mlir::Value> foldByKernel(mlir::Operation *op, Status &status);
  std::string nodeWhere(const onnxpb::Node &node, int index) const;

  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  graph::ProgramOp program;
  Scope modelScope;
  Scope *scope = &modelScope;
  llvm::StringMap<const onnxpb::Function *> functions; ///< by functionKey
  llvm::DenseMap<const NodeList *, std::unique_ptr<Body>> bodies;
  std::deque<onnxpb::Node> boundNodes; ///< of functions, with the values of their attributes
  int64_t importedNodes = 0;
  llvm::StringMap<const onnxpb::Tensor *> initializers;
  llvm::StringMap<TensorInfo> parameters;           ///< initializers that became graph.parameter
  Origins origins;                                  ///< what the exporter says of initializers
  llvm::StringMap<Tied> tied;                       ///< second names of --tie
  llvm::StringMap<int64_t> untied;                  ///< names of --untie -> uses so far
  llvm::StringMap<std::optional<int64_t>> paddings; ///< of --padding-idx, or found: the row without gradient
  llvm::DenseMap<mlir::Value, std::unique_ptr<HostTensor>> constants;
  Appended appended;
  int64_t foldingWork = 0, tableWork = 0; ///< elements so far, of folded operations and of handlers' constants
  int64_t dropouts = 0;
  std::string diagnostic; ///< the last one MLIR reported
  mlir::ScopedDiagnosticHandler diagnostics;
};

/// Roles and evidence of all parameters (docs/onnx.md 1.4); after the recognisers have run. Removes those that nothing
/// reads. Doubts are warnings on the parameters.
Status assignRoles(mlir::ModuleOp module, const ImportOptions &options, const Origins &origins, Contents &contents);

} // namespace zc::importer
