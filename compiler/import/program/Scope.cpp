//===- Scope.cpp - nodes with names of their own --------------------------------===//
#include "compiler/import/program/Scope.h"

using namespace zc;
using namespace zc::importer;

/// Inputs of a node and every name that its subgraphs, or its attributes, mention: more than what they take from
/// outside does no harm.
static void forEachName(const onnxpb::Node &node, const ValueNames &names, llvm::function_ref<void(uint32_t)> visit) {
  for (int i = 0; i < node.input_size(); ++i)
    visit(inputOf(node, i).number);
  auto graph = [&](const onnxpb::Graph &body) {
    for (const onnxpb::Node &inner : body.node())
      forEachName(inner, names, visit);
    for (const onnxpb::ValueInfo &output : body.output())
      visit(names.find(output.name()));
  };
  bool isGradient = node.op_type() == "Gradient" && node.domain() == "ai.onnx.preview.training";
  for (const onnxpb::Attribute &attribute : node.attribute()) {
    if (isGradient) { // xs, zs and y are names of tensors
      visit(names.find(attribute.s()));
      for (const std::string &tensor : attribute.strings())
        visit(names.find(tensor));
    }
    if (attribute.has_g())
      graph(attribute.g());
    for (const onnxpb::Graph &body : attribute.graphs())
      graph(body);
  }
}

Body zc::importer::findLive(const NodeList &nodes, llvm::ArrayRef<std::string> outputs, const ValueNames &names) {
  llvm::DenseMap<uint32_t, int> producer(static_cast<unsigned>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i)
    for (int k = 0; k < nodes[i].output_size(); ++k)
      if (uint32_t name = outputOf(nodes[i], k).number; name != ValueNames::none)
        producer[name] = i;
  Body body;
  std::vector<bool> live(nodes.size(), false);
  std::vector<int> pending;
  auto need = [&](uint32_t name) {
    auto found = producer.find(name);
    if (found == producer.end())
      return;
    if (nodes[found->second].output_size() > 1)
      body.usedOfSeveral.insert(name);
    if (live[found->second])
      return;
    live[found->second] = true;
    pending.push_back(found->second);
  };
  for (const std::string &output : outputs)
    need(names.find(output));
  while (!pending.empty()) {
    int i = pending.back();
    pending.pop_back();
    forEachName(nodes[i], names, need);
  }
  for (int i = 0; i < nodes.size(); ++i)
    if (live[i])
      body.live.push_back(i);
  return body;
}

bool zc::importer::namesAttributes(const onnxpb::Node &node) {
  auto inGraph = [](const onnxpb::Graph &graph) { return llvm::any_of(graph.node(), namesAttributes); };
  return llvm::any_of(node.attribute(), [&](const onnxpb::Attribute &a) {
    return !a.ref_attr_name().empty() || (a.has_g() && inGraph(a.g())) || llvm::any_of(a.graphs(), inGraph);
  });
}

/// The value of the function's attribute, or null: then the node's attribute is absent.
static const onnxpb::Attribute *valueOf(const std::string &name, const onnxpb::Function &function,
                                        const onnxpb::Node &call) {
  for (const onnxpb::Attribute &given : call.attribute())
    if (given.name() == name)
      return &given;
  for (const onnxpb::Attribute &standard : function.attribute_proto())
    if (standard.name() == name)
      return &standard;
  return nullptr;
}

onnxpb::Node zc::importer::bindAttributes(const onnxpb::Node &node, const onnxpb::Function &function,
                                          const onnxpb::Node &call) {
  onnxpb::Node bound = node;
  auto inGraph = [&](onnxpb::Graph &graph) {
    for (onnxpb::Node &inner : *graph.mutable_node())
      if (namesAttributes(inner))
        inner = bindAttributes(inner, function, call);
  };
  bound.clear_attribute();
  for (const onnxpb::Attribute &a : node.attribute()) {
    if (a.ref_attr_name().empty()) {
      onnxpb::Attribute &copy = *bound.add_attribute() = a;
      if (copy.has_g())
        inGraph(*copy.mutable_g());
      for (onnxpb::Graph &graph : *copy.mutable_graphs())
        inGraph(graph);
      continue;
    }
    if (const onnxpb::Attribute *value = valueOf(a.ref_attr_name(), function, call)) {
      onnxpb::Attribute &copy = *bound.add_attribute() = *value;
      copy.set_name(a.name());
    }
  }
  return bound;
}

Functions::Functions(const onnxpb::Model &model) {
  for (const onnxpb::Function &function : model.functions())
    functions[functionKey(function.domain(), function.name(), function.overload())] = &function;
}

const onnxpb::Function *Functions::of(const onnxpb::Node &node) const {
  if (functions.empty())
    return nullptr;
  return functions.lookup(functionKey(node.domain(), node.op_type(), node.overload()));
}

int64_t zc::importer::opsetOf(const std::string &domain, const OpsetList &opsets, const onnxpb::Model &model) {
  auto inShort = [](llvm::StringRef name) { return name == "ai.onnx" ? llvm::StringRef() : name; };
  for (const OpsetList *list : {&opsets, &model.opset_import()})
    for (const onnxpb::OpsetId &opset : *list)
      if (inShort(opset.domain()) == inShort(domain))
        return opset.version();
  return 0;
}

llvm::SmallVector<std::string> zc::importer::outputsOf(const onnxpb::Graph &graph) {
  llvm::SmallVector<std::string> names;
  for (const onnxpb::ValueInfo &output : graph.output())
    names.push_back(output.name());
  return names;
}
