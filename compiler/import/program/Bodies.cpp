//===- Bodies.cpp - functions and subgraphs, imported in place -----------------===//
//
// A call of a model-local function, a branch of If and each iteration of Loop and Scan become plain operations of the
// program. Nesting is bounded (ImportLimits::depth), and so is the number of nodes imported in all, so that neither a
// chain of functions nor a trip count can make an import that does not end.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"
#include "compiler/import/program/Importer.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

int64_t Importer::opsetOf(const std::string &domain, const OpsetList &opsets) const {
  std::string wanted = domain == "ai.onnx" ? "" : domain;
  for (const OpsetList *list : {&opsets, &file.model.opset_import()}) // a function may rely on the model's
    for (const onnxpb::OpsetId &opset : *list)
      if ((opset.domain() == "ai.onnx" ? "" : opset.domain()) == wanted)
        return opset.version();
  return 0;
}

const onnxpb::Function *Importer::functionOf(const onnxpb::Node &node) const {
  if (functions.empty())
    return nullptr;
  auto found = functions.find(functionKey(node.domain(), node.op_type(), node.overload()));
  return found == functions.end() ? nullptr : found->second;
}

const Body &Importer::bodyOf(const NodeList &nodes, llvm::ArrayRef<std::string> outputs) {
  auto &body = bodies[&nodes];
  if (!body)
    body = std::make_unique<Body>(findLive(nodes, outputs));
  return *body;
}

static llvm::SmallVector<std::string> outputsOf(const onnxpb::Graph &graph) {
  llvm::SmallVector<std::string> names;
  for (const onnxpb::ValueInfo &output : graph.output())
    names.push_back(output.name());
  return names;
}

//===-- operators without a handler ---------------------------------------------===//

/// Every operator that will be met, once per list of nodes, in functions and subgraphs too.
void Importer::findMissing(std::map<std::string, std::vector<std::string>> &missing) {
  struct Pending {
    const NodeList *nodes;
    llvm::SmallVector<std::string> outputs;
    const OpsetList *opsets;
  };
  std::vector<Pending> pending;
  llvm::DenseSet<const void *> seen;
  auto visit = [&](const NodeList &nodes, const Body &body, const OpsetList &opsets) {
    for (int i : body.live) {
      const onnxpb::Node &node = nodes[i];
      for (const onnxpb::Attribute &attribute : node.attribute()) {
        if (attribute.has_g())
          pending.push_back({&attribute.g().node(), outputsOf(attribute.g()), &opsets});
      }
      if (const onnxpb::Function *function = functionOf(node)) {
        if (seen.insert(function).second)
          pending.push_back({&function->node(),
                             llvm::SmallVector<std::string>(function->output().begin(), function->output().end()),
                             &function->opset_import()});
        continue;
      }
      int64_t opset = opsetOf(node.domain(), opsets);
      if (allHandlers().find(node.domain(), node.op_type(), opset))
        continue;
      std::string op = node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type();
      missing[op + "' of opset " + std::to_string(opset)].push_back(nodeLabel(node, i));
    }
  };
  visit(file.graph().node(), *modelScope.body, file.model.opset_import());
  while (!pending.empty()) {
    Pending next = std::move(pending.back());
    pending.pop_back();
    visit(*next.nodes, findLive(*next.nodes, next.outputs), *next.opsets);
  }
}

//===-- bodies --------------------------------------------------------------------===//

Status Importer::importNodes(const NodeList &nodes) {
  for (int i : scope->body->live)
    ZC_RETURN_IF_ERROR(importNode(nodes[i], i));
  return Status::success();
}

Status Importer::enter(Scope &inner, const std::string &label) {
  inner.prefix = scope->prefix + label + "/";
  inner.depth = scope->depth + 1;
  if (inner.depth > options.limits.depth)
    return unsupportedError(tooLarge,
                            "functions and subgraphs are nested deeper than " + std::to_string(options.limits.depth),
                            file.path + ": node \"" + label + "\"");
  scope = &inner;
  return Status::success();
}

const onnxpb::Node &Importer::bindCall(const onnxpb::Node &node) {
  if (!scope->function || !namesAttributes(node))
    return node;
  // Kept: bodies and payloads are known by their addresses.
  boundNodes.push_back(bindAttributes(node, *scope->function, *scope->call));
  for (const onnxpb::Attribute &attribute : boundNodes.back().attribute())
    for (const onnxpb::Attribute &given : scope->call->attribute()) {
      auto payload = file.payloads.find(&given.t());
      if (attribute.has_t() && given.has_t() && payload != file.payloads.end() && !attribute.t().has_raw_data() &&
          attribute.t().name() == given.t().name())
        file.payloads[&attribute.t()] = payload->second;
    }
  return boundNodes.back();
}

Status Importer::importCall(const onnxpb::Function &function, const onnxpb::Node &call, int index) {
  Scope *caller = scope;
  std::string label = nodeLabel(call, index), where = nodeWhere(call, index);
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
    return badFile(badNode,
                   "function '" + function.name() + "' is called with " + std::to_string(call.input_size()) +
                       " inputs and " + std::to_string(call.output_size()) + " outputs; it has " +
                       std::to_string(function.input_size()) + " and " + std::to_string(function.output_size()),
                   where);
  for (const std::string &required : function.attribute())
    if (llvm::none_of(call.attribute(), [&](const onnxpb::Attribute &a) { return a.name() == required; }))
      return badFile(badAttribute, "function '" + function.name() + "' needs attribute '" + required + "'", where);
  Scope inner;
  inner.opsets = &function.opset_import();
  inner.function = &function;
  inner.call = &call;
  llvm::SmallVector<std::string> outputs(function.output().begin(), function.output().end());
  inner.body = &bodyOf(function.node(), outputs);
  Location loc = NameLoc::get(builder.getStringAttr(scope->prefix + label));
  for (int i = 0; i < function.input_size(); ++i) {
    Binding &binding = inner.bindings[function.input(i)];
    binding.isEmpty = i >= call.input_size() || call.input(i).empty();
    if (binding.isEmpty)
      continue;
    auto given = lookup(call.input(i), loc);
    if (!given.ok())
      return given.error();
    binding = std::move(*given);
  }
  ZC_RETURN_IF_ERROR(enter(inner, label));
  Status status = importNodes(function.node());
  for (int i = 0; i < call.output_size() && status.ok(); ++i) {
    if (call.output(i).empty() || !caller->body->used.count(call.output(i)))
      continue;
    auto result = lookup(function.output(i), loc);
    if (result.ok())
      caller->bindings[call.output(i)] = std::move(*result);
    else
      status = result.error();
  }
  scope = caller;
  return status;
}

Result<llvm::SmallVector<Binding>> Importer::importGraph(const onnxpb::Graph &graph, llvm::ArrayRef<Binding> inputs,
                                                         const std::string &label, Location loc) {
  Scope *around = scope;
  if (static_cast<int>(inputs.size()) != graph.input_size())
    return badFile(badNode, "the body has " + std::to_string(graph.input_size()) + " inputs, but " +
                                std::to_string(inputs.size()) + " are given");
  Scope inner;
  inner.outer = around;
  inner.opsets = around->opsets;
  inner.body = &bodyOf(graph.node(), outputsOf(graph));
  for (size_t i = 0; i < inputs.size(); ++i)
    inner.bindings[graph.input(static_cast<int>(i)).name()] = inputs[i];
  for (const onnxpb::Tensor &tensor : graph.initializer())
    inner.initializers[tensor.name()] = &tensor;
  ZC_RETURN_IF_ERROR(countNode());
  ZC_RETURN_IF_ERROR(enter(inner, label));
  Status status = importNodes(graph.node());
  llvm::SmallVector<Binding> results;
  for (int i = 0; i < graph.output_size() && status.ok(); ++i) {
    auto result = lookup(graph.output(i).name(), loc);
    if (result.ok())
      results.push_back(std::move(*result));
    else
      status = result.error();
  }
  scope = around;
  if (!status.ok())
    return status.error();
  return results;
}

Status Importer::countNode() {
  if (++importedNodes <= options.limits.nodes)
    return Status::success();
  return badFile(tooLarge,
                 "with functions and loops unrolled there are more than " + std::to_string(options.limits.nodes) +
                     " nodes",
                 file.path);
}
