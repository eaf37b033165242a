#include "compiler/pipeline/Register.h"
#include "compiler/grad/Passes.h"
#include "compiler/import/Passes.h"
#include "compiler/schedule/Passes.h"
#include "compiler/shard/Passes.h"
#include "dialects/plan/Plan.h"
#include "dialects/zero/Zero.h"
#include "mlir/Transforms/Passes.h"

void zc::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<graph::GraphDialect, zero::ZeroDialect, plan::PlanDialect>();
}

void zc::registerAllPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  registerZcImportPasses();
  registerGradPipeline();
  registerShardPipeline();
  registerSchedulePipelines();
}
