//===- PassOptions.h - passes that take the options of their stage ------------------===//
#pragma once

#include "compiler/options/OptionList.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace zc {

/// Reads zero-opt's text into a stage's options, which `listOptions(Options &, OptionList &)` names and
/// `validate(const Options &)` checks.
template <typename Options>
mlir::LogicalResult readOptions(llvm::StringRef text, Options &options,
                                llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> error) {
  OptionList list;
  listOptions(options, list);
  Status status = list.readText(text.str());
  if (status.ok())
    status = validate(options);
  if (status.ok())
    return mlir::success();
  return error((status.error().where.empty() ? "" : status.error().where.substr(2) + ": ") + status.error().message);
}

/// A pass that is told what its stage is told. `Base` is generated from Passes.td.
template <typename Base, typename Options> struct StagePass : Base {
  explicit StagePass(const Options &options) : options(options) {}

  mlir::LogicalResult initializeOptions(llvm::StringRef text,
                                        llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> error) override {
    return readOptions(text, options, error);
  }

  Options options;
};

/// Registers a stage as a pipeline of zero-opt.
template <typename Options>
void registerStage(llvm::StringRef name, llvm::StringRef description,
                   void (*build)(mlir::OpPassManager &, const Options &)) {
  mlir::registerPassPipeline(
      name, description,
      [build](mlir::OpPassManager &manager, llvm::StringRef text,
              llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> error) {
        Options options;
        if (mlir::failed(readOptions(text, options, error)))
          return mlir::failure();
        build(manager, options);
        return mlir::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}

} // namespace zc
