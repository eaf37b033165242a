//===- zero-opt.cpp - mlir-opt with this project's dialects and passes --------===//
#include "compiler/pipeline/Register.h"
#include "runtime/io/Outputs.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  zc::registerAllPasses();
  mlir::DialectRegistry registry;
  zc::registerAllDialects(registry);
  const auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "zero-compile optimizer\n", registry);
  // mlir-opt itself would begin with the output.
  if (zc::Status status =
          zc::checkOutputs({{"", input}}, {zc::written("-o", output == "-" ? "" : output, zc::FileKind::unknown)});
      !status.ok()) {
    llvm::errs() << zc::render(status.error()) << '\n';
    return static_cast<int>(status.error().code);
  }
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
