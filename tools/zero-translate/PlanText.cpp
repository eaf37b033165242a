//===- PlanText.cpp - plan files as text and back --------------------------------===//

#include "tools/zero-translate/PlanText.h"
#include "compiler/emit/ExternalFiles.h"
#include "compiler/emit/Report.h"
#include "dialects/plan/Execution.h"
#include "dialects/plan/PlanProto.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/Verify.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace zc::translate {

/// The first error that was emitted, with its place.
static Error errorOf(const std::string &message, const std::string &where) {
  return makeError(Code::badInput, 102, message.empty() ? "this is no plan" : message, where);
}

Status planToMlir(const std::string &path, llvm::raw_ostream &out) {
  Result<planpb::Plan> plan = readPlan(path);
  if (!plan)
    return plan.error();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = message.empty() ? diagnostic.str() : message;
    return success();
  });
  OwningOpRef<ModuleOp> module = plan::fromProto(context, *plan);
  if (!module)
    return errorOf(message, path);
  module->print(out, OpPrintingFlags().enableDebugInfo());
  out << '\n';
  return Status::success();
}

Result<std::string> mlirToPlan(const std::string &path) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<plan::PlanDialect, graph::GraphDialect>();
  std::string message, where = path;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (!message.empty())
      return success();
    message = diagnostic.str();
    if (auto location = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
      where += ":" + std::to_string(location.getLine());
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
  if (!module)
    return errorOf(message, where);
  FailureOr<planpb::Plan> plan = plan::toProto(*module);
  if (failed(plan))
    return errorOf(message, where);
  if (Status status = recordExternalFiles(*plan); !status.ok())
    return status.error();
  const plan::Execution execution = plan::executionOf(*module);
  fillReport(*plan, {execution.deviceBudget, execution.hostBudget, execution.nvmeBudget});
  if (Status status = verifyPlan(*plan); !status.ok()) {
    const std::string &place = status.error().where;
    return errorOf(status.error().message + (place.empty() ? "" : " (" + place + ")"), path);
  }
  return packPlan(*plan);
}

} // namespace zc::translate
