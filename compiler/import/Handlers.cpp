//===- Handlers.cpp - which ONNX operator is imported by what -----------------===//
#include "compiler/import/Handlers.h"

#include "llvm/ADT/STLExtras.h"

using namespace zc::importer;

static std::string keyOf(llvm::StringRef domain, llvm::StringRef op) {
  return (domain == "ai.onnx" ? std::string() : domain.str()) + "." + op.str();
}

void HandlerTable::add(llvm::StringRef domain, llvm::StringRef op, HandlerRow row) {
  auto &versions = rows[keyOf(domain, op)];
  auto at = llvm::find_if(versions, [&](const HandlerRow &other) { return other.since > row.since; });
  versions.insert(at, row);
}

const HandlerRow *HandlerTable::find(llvm::StringRef domain, llvm::StringRef op, int64_t opset) const {
  auto found = rows.find(keyOf(domain, op));
  if (found == rows.end())
    return nullptr;
  const HandlerRow *newest = nullptr;
  for (const HandlerRow &row : found->second)
    if (row.since <= opset)
      newest = &row;
  return newest;
}

const HandlerTable &HandlerTable::get() {
  static const HandlerTable table = [] {
    HandlerTable t;
    addElementwiseHandlers(t);
    addConstantHandlers(t);
    addShapeHandlers(t);
    addSliceHandlers(t);
    addIndexHandlers(t);
    addReduceHandlers(t);
    addLinearHandlers(t);
    addNormHandlers(t);
    addAttentionHandlers(t);
    addLossHandlers(t);
    addMicrosoftGradHandlers(t);
    addGradientHandlers(t);
    addSequenceHandlers(t);
    addVisionHandlers(t);
    addBatchNormHandlers(t);
    addActivationHandlers(t);
    addMicrosoftHandlers(t);
    return t;
  }();
  return table;
}
