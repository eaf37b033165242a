//===- NodeContext.h - what a node is imported into ------------------------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "compiler/import/file/Initializer.h"
#include "compiler/import/rows/PickedRows.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace zc::importer {

/// What a name stands for: a tensor, a sequence of tensors, or nothing (an optional without a value; an input that a
/// function's caller left out).
struct Binding {
  mlir::Value value;
  llvm::SmallVector<mlir::Value, 0> sequence;
  bool isSequence = false;
  bool isEmpty = false;
};

/// How often the file has what trains otherwise than the exported model did (docs/onnx.md 1.3).
struct ExporterHabits {
  int64_t frozenBatchNorms = 0;        ///< in evaluation mode although the graph is trained
  int64_t foldedBatchNorms = 0;        ///< gone from the file
  int64_t inactiveDropouts = 0;        ///< identities although their ratio is not zero
  std::vector<std::string> undetached; ///< nodes that a detached value is taken by, which the file has not
};

/// All that a Node knows of the import it is a part of: names, operations, tensors of the file.
class NodeContext {
public:
  explicit NodeContext(const ImportOptions &options) : options(options) {}
  virtual ~NodeContext() = default;

  const ImportOptions &options;
  ExporterHabits habits;

  //===-- names -------------------------------------------------------------===//
  /// The value of a name: a node's result, a graph input, or an initializer (then read or made constant at `loc`).
  virtual Result<Binding> lookup(ValueName name, mlir::Location loc) = 0;
  /// `name`: its number (ValueNames).
  virtual void bind(uint32_t name, Binding binding) = 0;
  /// Whether a name stands for nothing.
  virtual bool isEmpty(uint32_t name) const = 0;
  /// A name that is in no list of a node.
  virtual ValueName named(const std::string &text) const = 0;
  /// Before a subgraph is imported `times` times: an error where these are more nodes than a model may have.
  virtual Status checkRepetitions(const onnxpb::Graph &graph, int64_t times) = 0;
  /// The nodes of a subgraph once more, with its inputs bound; gives its outputs. `label`: of the node it belongs to.
  virtual Result<llvm::SmallVector<Binding>> importGraph(const onnxpb::Graph &graph, llvm::ArrayRef<Binding> inputs,
                                                         const std::string &label, mlir::Location loc) = 0;

  //===-- operations --------------------------------------------------------===//
  /// Builds an op, infers its types, checks it, evaluates it if its operands are known.
  virtual Result<llvm::SmallVector<mlir::Value>> makeOp(llvm::StringRef name, mlir::ValueRange operands,
                                                        const mlir::NamedAttrList &attributes, mlir::Location loc) = 0;
  /// For what is built otherwise: derivatives.
  virtual mlir::OpBuilder &opBuilder() = 0;
  /// Null unless known when compiling.
  virtual const HostTensor *constantOf(mlir::Value value) const = 0;
  /// What is known of rows that a mask picked.
  virtual PickedRows &pickedRows() = 0;
  virtual mlir::Value makeConstant(HostTensor tensor, mlir::Location loc) = 0;
  /// Whether handlers may make another constant of so many elements (ImportLimits::foldingWork).
  virtual bool maySpend(int64_t elements) = 0;
  virtual int64_t nextDropoutId() = 0;

  //===-- tensors of the file -----------------------------------------------===//
  /// The model's initializer that a name stands for, be it the input of a function that is called with it, or what a
  /// node says (standFor); else empty.
  virtual std::string initializerOf(const std::string &name) const = 0;
  /// `name`, of a node's output, stands for the model's `initializer`, as it is from there on.
  virtual void standFor(const std::string &name, const std::string &initializer) = 0;
  /// `what` names the tensor in messages.
  virtual Result<TensorInfo> inspect(const onnxpb::Tensor &tensor, const std::string &what) = 0;
  virtual Result<HostTensor> read(const TensorInfo &info, const std::string &what) = 0;
  /// The tensor of a Constant node of that name: constant if small, else stored.
  virtual Result<mlir::Value> makeTensor(const onnxpb::Tensor &tensor, const std::string &name, mlir::Location loc) = 0;
  /// The present value of an initializer that the step changes; a value of it that is known when compiling is not used.
  virtual Result<mlir::Value> readState(const std::string &name, mlir::Location loc) = 0;
  /// From here on the initializer `name`, which was read as state, is `value`. That makes it a buffer.
  virtual void assignState(const std::string &name, mlir::Value value, mlir::Location loc) = 0;
  /// The row of an embedding that gets no gradient: what --padding-idx says, or `traced`, the exporter's word, or the
  /// one row of zeros that a fresh padding_idx leaves (told in a warning).
  virtual std::optional<int64_t> paddingOf(const std::string &name, std::optional<int64_t> traced) = 0;
  /// The numbers of a parameter; none where they cannot be read.
  virtual std::optional<HostTensor> storedNumbers(llvm::StringRef parameter) = 0;
  /// The operator's definition says that this parameter is a weight.
  virtual void noteWeight(const std::string &name, std::string evidence) = 0;
  virtual void noteState(const std::string &parameter) = 0;
};

} // namespace zc::importer
