#include "compiler/pipeline/Register.h"
#include "compiler/grad/Passes.h"
#include "dialects/graph/Graph.h"
#include "mlir/Transforms/Passes.h"

void zc::registerAllDialects(mlir::DialectRegistry &registry) { registry.insert<graph::GraphDialect>(); }

void zc::registerAllPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  registerGradPipeline();
}
