//===- Operators.cpp - operators without a handler ----------------------===//
#include "compiler/import/program/Operators.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/base/Listed.h"
#include "compiler/import/handlers/Handlers.h"

#include <map>

using namespace zc;
using namespace zc::importer;

namespace {

/// Walks lists of nodes, each once.
class OperatorCheck {
public:
  OperatorCheck(const ModelFile &file, const Functions &functions) : file(file), functions(functions) {}

  void visit(const NodeList &nodes, const Body &body, const OpsetList &opsets) {
    for (int i : body.live)
      visit(nodes[i], i, opsets);
    while (!pending.empty()) {
      Pending next = std::move(pending.back());
      pending.pop_back();
      visit(*next.nodes, findLive(*next.nodes, next.outputs, file.names), *next.opsets);
    }
  }

  std::map<std::string, std::vector<std::string>> missing; ///< operator -> nodes

private:
  struct Pending {
    const NodeList *nodes;
    llvm::SmallVector<std::string> outputs;
    const OpsetList *opsets;
  };

  void visit(const onnxpb::Node &node, int index, const OpsetList &opsets) {
    for (const onnxpb::Attribute &attribute : node.attribute())
      if (attribute.has_g())
        pending.push_back({&attribute.g().node(), outputsOf(attribute.g()), &opsets});
    if (const onnxpb::Function *function = functions.of(node)) {
      if (seen.insert(function).second)
        pending.push_back({&function->node(),
                           llvm::SmallVector<std::string>(function->output().begin(), function->output().end()),
                           &function->opset_import()});
      return;
    }
    int64_t opset = opsetOf(node.domain(), opsets, file.model);
    if (allHandlers().find(node.domain(), node.op_type(), opset))
      return;
    std::string op = node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type();
    missing[op + "' of opset " + std::to_string(opset)].push_back(nodeLabel(node, index));
  }

  const ModelFile &file;
  const Functions &functions;
  std::vector<Pending> pending;
  llvm::DenseSet<const void *> seen;
};

} // namespace

Status zc::importer::checkOperators(const ModelFile &file, const Functions &functions, const Body &live) {
  int64_t opset = opsetOf("", file.model.opset_import(), file.model);
  if (opset > newestOpset)
    return unsupportedError(
        badVersion, "imports opset " + std::to_string(opset) + "; the newest known is " + std::to_string(newestOpset),
        file.path);
  OperatorCheck check(file, functions);
  check.visit(file.graph().node(), live, file.model.opset_import());
  if (check.missing.empty())
    return Status::success();
  size_t nodes = 0;
  std::string text;
  for (const auto &[op, names] : check.missing) {
    text += (text.empty() ? "'" : "; '") + op + " (" + listed(names, 5) + ")";
    nodes += names.size();
  }
  Error error = unsupportedError(
      unsupportedOp, std::to_string(nodes) + (nodes == 1 ? " node has" : " nodes have") + " no import handler: " + text,
      file.path);
  if (llvm::StringRef(text).contains("'com.microsoft.nchwc."))
    error.help = "ONNX Runtime writes these for one processor; save the model with ORT_ENABLE_EXTENDED, or as it was";
  return error;
}
