//===- Ties.h - parameters that exporters took apart or joined ----------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "compiler/import/parameters/Origins.h"
#include "compiler/import/parameters/ParameterBytes.h"

#include "mlir/IR/BuiltinOps.h"

namespace zc::importer {

/// Initializers of the model's graph, by name.
using InitializerMap = llvm::StringMap<const onnxpb::Tensor *>;

/// --tie and --untie, resolved.
class Ties {
public:
  /// What stands for the second name of a tie.
  struct Tied {
    std::string to;
    bool transposed = false;
  };
  /// Errors: usage (names that do not exist, other shapes).
  Status resolve(ModelFile &file, const ImportOptions &options, const InitializerMap &initializers,
                 mlir::MLIRContext &context);
  /// Null unless the name is the second one of a tie.
  const Tied *of(llvm::StringRef name) const {
    auto found = tied.find(name);
    return found == tied.end() ? nullptr : &found->second;
  }
  /// The second names whose values are those of `name`.
  llvm::SmallVector<llvm::StringRef> tiedTo(llvm::StringRef name) const;
  /// The parameter that the next use of an initializer reads: of --untie one of its own.
  std::string nameOfNextUse(const std::string &name);

private:
  std::vector<std::pair<std::string, std::string>> ties; ///< as given: first and second name
  llvm::StringMap<Tied> tied;                            ///< by second name
  llvm::StringMap<int64_t> untied;                       ///< -> uses so far
};

/// Errors of --tie, --untie and --padding-idx.
Error badTieError(const std::string &problem, const std::string &flag);

/// Copies that should be one parameter, and one that should be several: warnings on the parameters (docs/onnx.md 1.3).
/// None on what the exporter knows as two: layers may start with equal values.
void reportTies(mlir::ModuleOp module, const Origins &origins, ParameterBytes &parameterBytes);

} // namespace zc::importer
