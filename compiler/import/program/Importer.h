//===- Importer.h - the program of a graph, node by node ----------------===//
#pragma once

#include "compiler/import/fold/Constants.h"
#include "compiler/import/parameters/Parameters.h"
#include "compiler/import/program/AppendLoss.h"
#include "compiler/import/program/Detached.h"
#include "compiler/import/program/Scope.h"
#include "dialects/graph/NodeNames.h"
#include "dialects/graph/VerifyModule.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"

#include <deque>
#include <map>
#include <memory>

namespace zc::importer {

/// Builds the module node by node. `run` once.
class Importer : public NodeContext {
public:
  Importer(mlir::MLIRContext &context, ModelFile &file, const ImportOptions &options);
  Result<mlir::OwningOpRef<mlir::ModuleOp>> run();

private:
  //===-- NodeContext -------------------------------------------------------===//
  Result<Binding> lookup(ValueName name, mlir::Location loc) override;
  void bind(uint32_t name, Binding binding) override { scope->bindings[name] = std::move(binding); }
  bool isEmpty(uint32_t name) const override {
    const Binding *bound = scope->find(name);
    return bound && bound->isEmpty;
  }
  ValueName named(const std::string &text) const override { return {text, file.names.find(text)}; }
  Status checkRepetitions(const onnxpb::Graph &graph, int64_t times) override;
  Result<llvm::SmallVector<Binding>> importGraph(const onnxpb::Graph &graph, llvm::ArrayRef<Binding> inputs,
                                                 const std::string &label, mlir::Location loc) override;
  Result<llvm::SmallVector<mlir::Value>> followRows(mlir::Operation *op);
  Result<llvm::SmallVector<mlir::Value>> makeOp(llvm::StringRef name, mlir::ValueRange operands,
                                                const mlir::NamedAttrList &attributes, mlir::Location loc) override;
  mlir::OpBuilder &opBuilder() override { return builder; }
  const HostTensor *constantOf(mlir::Value value) const override { return constants.of(value); }
  mlir::Value makeConstant(HostTensor tensor, mlir::Location loc) override {
    return constants.make(std::move(tensor), loc);
  }
  PickedRows &pickedRows() override { return rows; }
  bool maySpend(int64_t elements) override { return constants.maySpend(elements); }
  int64_t nextDropoutId() override { return dropouts++; }
  std::string initializerOf(const std::string &name) const override;
  void standFor(const std::string &name, const std::string &initializer) override { scope->stored[name] = initializer; }
  Result<TensorInfo> inspect(const onnxpb::Tensor &tensor, const std::string &what) override {
    return inspectTensor(file, tensor, options.limits, file.path + ": " + what);
  }
  Result<HostTensor> read(const TensorInfo &info, const std::string &what) override {
    return readTensor(file, info, file.path + ": " + what);
  }
  Result<mlir::Value> makeTensor(const onnxpb::Tensor &tensor, const std::string &name, mlir::Location loc) override {
    return makeTensorIn(*scope, tensor, name, loc);
  }
  Result<mlir::Value> readState(const std::string &name, mlir::Location loc) override {
    return parameters.readState(name, loc);
  }
  void assignState(const std::string &name, mlir::Value value, mlir::Location loc) override {
    parameters.assignState(name, value, loc);
  }
  std::optional<int64_t> paddingOf(const std::string &name, std::optional<int64_t> traced) override {
    return parameters.padding.of(name, traced, mlir::NameLoc::get(builder.getStringAttr(name)));
  }
  std::optional<HostTensor> storedNumbers(llvm::StringRef parameter) override {
    auto values = parameters.bytes().values(parameter);
    return values ? std::optional(std::move(*values)) : std::nullopt;
  }
  void noteWeight(const std::string &name, std::string evidence) override {
    parameters.origins.noteWeight(name, std::move(evidence));
  }
  void noteState(const std::string &parameter) override { parameters.origins.noteState(parameter); }

  //===-- nodes and bodies --------------------------------------------------===//
  Status findLiveNodes();
  Status makeProgram();
  Status importNode(const onnxpb::Node &node, int index);
  Status importNodes(const NodeList &nodes);
  Status importCall(const onnxpb::Function &function, const onnxpb::Node &call, int index);
  Status bindOperands(Scope &inner, const onnxpb::Function &function, const onnxpb::Node &call, mlir::Location loc);
  Status enter(Scope &inner, const std::string &label);
  Status countNode();
  Error tooManyNodes() const;
  const onnxpb::Node &bindCall(const onnxpb::Node &node);
  const Body &bodyOf(const NodeList &nodes, llvm::ArrayRef<std::string> outputs);
  llvm::SmallVector<std::string> usedOf(const onnxpb::Function &function, const onnxpb::Node &call) const;
  Result<mlir::Value> makeTensorIn(const Scope &scope, const onnxpb::Tensor &tensor, const std::string &name,
                                   mlir::Location loc);
  Result<mlir::Value> makeBand(ParameterBytes::Band band, llvm::ArrayRef<int64_t> dims, mlir::Location loc);
  std::string nodeWhere(const onnxpb::Node &node, int index) const;

  //===-- what the program returns (Outputs.cpp) ------------------------------===//
  bool returns(const std::string &name) const;
  Result<int> chooseLoss();
  Status returnLoss(mlir::Value appendedLoss);
  Status returnOutputs(mlir::Value appendedLoss);
  bool knowsDetached() const;
  Status finishProgram();
  Status finishModule();

  mlir::MLIRContext &context;
  ModelFile &file;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  graph::ProgramOp program;
  Parameters parameters;
  Constants constants;
  PickedRows rows;
  graph::NodeNames &names;
  graph::AlikeOps alike;
  Functions functions;
  LostDetaches lostDetaches;
  AppendedLoss appended;
  Scope modelScope;
  Scope *scope = &modelScope;
  /// Of the same nodes one for each set of outputs that a caller uses.
  std::map<std::pair<const NodeList *, std::vector<std::string>>, std::unique_ptr<Body>> bodies;
  std::deque<onnxpb::Node> boundNodes; ///< of functions, with the values of their attributes
  int64_t importedNodes = 0;
  int64_t dropouts = 0;
  std::string diagnostic; ///< the last one MLIR reported
  mlir::ScopedDiagnosticHandler diagnostics;
};

} // namespace zc::importer
