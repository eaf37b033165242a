//===- Constants.h - values of a program that are known when compiling -----===//
#pragma once

#include "compiler/import/base/HostTensor.h"
#include "compiler/import/base/Options.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace zc::importer {

/// The known values of a program under construction, and what computing them has cost so far.
class Constants {
public:
  Constants(mlir::OpBuilder &builder, const ImportLimits &limits) : builder(builder), limits(limits) {}

  /// Null unless known.
  const HostTensor *of(mlir::Value value) const;
  mlir::Value make(HostTensor tensor, mlir::Location loc);
  /// Whether handlers may make another constant of so many elements (ImportLimits::foldingWork).
  bool maySpend(int64_t elements) { return spend(tableWork, elements); }
  /// The constants that replace an op of known operands, which is erased; none if it stays. Errors: the operation is
  /// wrong for these values.
  Result<llvm::SmallVector<mlir::Value>> fold(mlir::Operation *op);
  /// Before operations are erased that values belong to.
  void clear() { known.clear(); }

private:
  using Values = llvm::SmallVector<mlir::Value>;
  bool spend(int64_t &work, int64_t elements) const;
  Result<Values> foldByKernel(mlir::Operation *op, llvm::ArrayRef<const HostTensor *> operands);
  Values replace(mlir::Operation *op, llvm::MutableArrayRef<HostTensor> results);

  mlir::OpBuilder &builder;
  const ImportLimits &limits;
  llvm::DenseMap<mlir::Value, std::unique_ptr<HostTensor>> known;
  int64_t foldingWork = 0, tableWork = 0; ///< elements so far, of folded operations and of handlers' constants
};

} // namespace zc::importer
