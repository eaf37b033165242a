//===- zero-opt.cpp - mlir-opt with this project's dialects and passes --------===//
#include "compiler/pipeline/Register.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  zc::registerAllPasses();
  mlir::DialectRegistry registry;
  zc::registerAllDialects(registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "zero-compile optimizer\n", registry));
}
