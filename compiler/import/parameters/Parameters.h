//===- Parameters.h - initializers, as the program reads them -----------===//
#pragma once

#include "compiler/import/parameters/Origins.h"
#include "compiler/import/parameters/Padding.h"
#include "compiler/import/parameters/Ties.h"
#include "dialects/graph/Graph.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/StringSet.h"

namespace zc::importer {

/// The model's initializers and other stored tensors: each that the program reads becomes a graph.parameter whose bytes
/// stay in the file, before the program in the module.
class Parameters {
public:
  Parameters(ModelFile &file, const ImportOptions &options, mlir::OpBuilder &builder);
  /// --tie, --untie, --padding-idx. Errors: usage.
  Status resolveOptions();
  /// In front of which parameters stand.
  void setProgram(graph::ProgramOp program) { this->program = program; }

  /// The initializer of that name, or null.
  const onnxpb::Tensor *find(llvm::StringRef name) const { return initializers.lookup(name); }
  /// Integers and bools, float scalars, and what the exporter marked as a buffer or computed of no parameter are known
  /// when compiling, if no step changes them; all other floats may turn out to be trained.
  bool isConstant(const onnxpb::Tensor &tensor) const;
  /// Is the tensor of a Constant node of the model to be stored as initializers are? Exporters of frozen modules, and
  /// converters, write weights so: in a file without an initializer that could be one, and with a matrix in a node.
  bool isParameter(const onnxpb::Tensor &constant) const;
  /// The initializer's value, through its tie.
  Result<mlir::Value> read(const std::string &name, mlir::Location loc);
  /// The value of a tensor whose bytes stay in the file.
  Result<mlir::Value> store(const TensorInfo &info, const std::string &name, mlir::Location loc);
  /// The present value of an initializer that the step changes.
  Result<mlir::Value> readState(const std::string &name, mlir::Location loc);
  /// From here on the initializer `name`, which was read as state, is `value`. That makes it a buffer.
  void assignState(llvm::StringRef name, mlir::Value value, mlir::Location loc);

  Origins origins;
  Padding padding;
  /// Those that became parameters.
  ParameterBytes bytes() const { return {file, stored}; }

private:
  Result<mlir::Value> readAs(const std::string &initializer, const std::string &parameter, mlir::Location loc);
  Status declare(const TensorInfo &info, const std::string &name, mlir::RankedTensorType type);

  ModelFile &file;
  const ImportOptions &options;
  mlir::OpBuilder &builder;
  graph::ProgramOp program;
  InitializerMap initializers;
  bool inNodes = false;       ///< weights are in Constant nodes
  llvm::StringSet<> assigned; ///< by nodes
  Ties ties;
  llvm::StringMap<TensorInfo> stored; ///< what became a parameter
  llvm::StringMap<graph::ParameterOp> declared;
};

} // namespace zc::importer
