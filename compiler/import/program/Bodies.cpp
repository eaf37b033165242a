//===- Bodies.cpp - functions and subgraphs, imported in place -----------------===//
//
// A call of a model-local function, a branch of If and each iteration of Loop and Scan become plain operations of the
// program. Nesting is bounded (ImportLimits::depth), and so is the number of nodes imported in all, so that neither a
// chain of functions nor a trip count can make an import that does not end.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/base/Errors.h"
#include "compiler/import/program/Importer.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

const Body &Importer::bodyOf(const NodeList &nodes, llvm::ArrayRef<std::string> outputs) {
  auto &body = bodies[{&nodes, std::vector<std::string>(outputs.begin(), outputs.end())}];
  if (!body)
    body = std::make_unique<Body>(findLive(nodes, outputs, file.names));
  return *body;
}

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

/// What the call gives to the function's inputs.
Status Importer::bindOperands(Scope &inner, const onnxpb::Function &function, const onnxpb::Node &call, Location loc) {
  for (int i = 0; i < function.input_size(); ++i) {
    Binding &binding = inner.bindings[named(function.input(i)).number];
    binding.isEmpty = i >= call.input_size() || call.input(i).empty();
    if (binding.isEmpty)
      continue;
    auto given = lookup(inputOf(call, i), loc);
    if (!given.ok())
      return given.error();
    binding = std::move(*given);
    if (std::string initializer = initializerOf(call.input(i)); !initializer.empty())
      inner.stored[function.input(i)] = std::move(initializer);
  }
  return Status::success();
}

/// Numbers of operands, and attributes that must be given.
static Status checkCall(const onnxpb::Function &function, const onnxpb::Node &call, const std::string &where) {
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
    return badFile(badNode,
                   "function '" + function.name() + "' is called with " + std::to_string(call.input_size()) +
                       " inputs and " + std::to_string(call.output_size()) + " outputs; it has " +
                       std::to_string(function.input_size()) + " and " + std::to_string(function.output_size()),
                   where);
  for (const std::string &required : function.attribute())
    if (llvm::none_of(call.attribute(), [&](const onnxpb::Attribute &a) { return a.name() == required; }))
      return badFile(badAttribute, "function '" + function.name() + "' needs attribute '" + required + "'", where);
  return Status::success();
}

/// The outputs that the caller goes on with: what only others need is not imported.
llvm::SmallVector<std::string> Importer::usedOf(const onnxpb::Function &function, const onnxpb::Node &call) const {
  llvm::SmallVector<std::string> outputs;
  for (int i = 0; i < call.output_size(); ++i)
    if (!call.output(i).empty() && scope->body->uses(call, i))
      outputs.push_back(function.output(i));
  return outputs;
}

Status Importer::importCall(const onnxpb::Function &function, const onnxpb::Node &call, int index) {
  Scope *caller = scope;
  std::string label = nodeLabel(call, index);
  ZC_RETURN_IF_ERROR(checkCall(function, call, nodeWhere(call, index)));
  Scope inner;
  inner.opsets = &function.opset_import();
  inner.function = &function;
  inner.call = &call;
  inner.body = &bodyOf(function.node(), usedOf(function, call));
  Location loc = NameLoc::get(builder.getStringAttr(scope->prefix + label));
  ZC_RETURN_IF_ERROR(bindOperands(inner, function, call, loc));
  ZC_RETURN_IF_ERROR(enter(inner, label));
  Status status = importNodes(function.node());
  for (int i = 0; i < call.output_size() && status.ok(); ++i) {
    if (call.output(i).empty() || !caller->body->uses(call, i))
      continue;
    auto result = lookup(named(function.output(i)), loc);
    if (result.ok())
      caller->bindings[outputOf(call, i).number] = std::move(*result);
    else
      status = result.error();
    if (std::string initializer = initializerOf(function.output(i)); !initializer.empty())
      caller->stored[call.output(i)] = std::move(initializer);
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
    inner.bindings[named(graph.input(static_cast<int>(i)).name()).number] = inputs[i];
  for (const onnxpb::Tensor &tensor : graph.initializer())
    inner.initializers[tensor.name()] = &tensor;
  ZC_RETURN_IF_ERROR(countNode());
  ZC_RETURN_IF_ERROR(enter(inner, label));
  Status status = importNodes(graph.node());
  llvm::SmallVector<Binding> results;
  for (int i = 0; i < graph.output_size() && status.ok(); ++i) {
    auto result = lookup(named(graph.output(i).name()), loc);
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

Status Importer::checkRepetitions(const onnxpb::Graph &graph, int64_t times) {
  const auto nodes = static_cast<int64_t>(bodyOf(graph.node(), outputsOf(graph)).live.size()) + 1;
  return times > (options.limits.nodes - importedNodes) / nodes ? Status(tooManyNodes()) : Status::success();
}

Status Importer::countNode() {
  return ++importedNodes <= options.limits.nodes ? Status::success() : Status(tooManyNodes());
}

Error Importer::tooManyNodes() const {
  return badFile(tooLarge,
                 "with functions and loops unrolled there are more than " + std::to_string(options.limits.nodes) +
                     " nodes",
                 file.path);
}
