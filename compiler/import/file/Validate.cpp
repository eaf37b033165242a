//===- Validate.cpp - the structure of an ONNX model ---------------------------===//
#include "compiler/import/base/Errors.h"
#include "compiler/import/file/ModelFile.h"

#include <charconv>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

using namespace zc;
using namespace zc::importer;

namespace {

constexpr int64_t minIrVersion = 3, maxIrVersion = 14;
constexpr int kAhead = 8; ///< nodes: what new names take is waiting for their places in the table

class Validator {
public:
  Validator(ModelFile &file, const ImportLimits &limits) : file(file), graph(file.graph()), limits(limits) {}

  Status run() {
    std::error_code none; // without a folder to stand in, the path itself is all there is
    if (!isValidUtf8(file.path) || !isValidUtf8(std::filesystem::absolute(file.path, none).string()))
      return badFile(notAFile, "the model's path is not UTF-8", file.path, "rename the file or its folder");
    ZC_RETURN_IF_ERROR(versions());
    ZC_RETURN_IF_ERROR(features());
    const size_t expected = static_cast<size_t>(graph.node_size()) + static_cast<size_t>(graph.initializer_size());
    order.reserve(expected);
    file.names.reserve(expected);
    ZC_RETURN_IF_ERROR(inputs());
    ZC_RETURN_IF_ERROR(nodes(*file.model.mutable_graph()->mutable_node(), [] { return std::string(); }));
    ZC_RETURN_IF_ERROR(outputs());
    for (onnxpb::Function &function : *file.model.mutable_functions())
      ZC_RETURN_IF_ERROR(body(function));
    return callDepth();
  }

private:
  Status versions() {
    int64_t ir = file.model.ir_version();
    if (!file.model.has_ir_version() || ir < 1)
      return badFile(badVersion, "has no valid ir_version (" + std::to_string(ir) + ")", file.path);
    if (ir < minIrVersion || ir > maxIrVersion)
      return unsupportedError(badVersion,
                              "has ir_version " + std::to_string(ir) + "; supported are " +
                                  std::to_string(minIrVersion) + " to " + std::to_string(maxIrVersion),
                              file.path);
    if (file.model.opset_import_size() == 0)
      return badFile(badVersion, "imports no operator set (opset_import is empty)", file.path);
    std::unordered_set<std::string> domains;
    for (const onnxpb::OpsetId &opset : file.model.opset_import()) {
      std::string domain = opset.domain() == "ai.onnx" ? "" : opset.domain();
      if (opset.version() < 1 || opset.version() > INT32_MAX)
        return badFile(badVersion,
                       "imports version " + std::to_string(opset.version()) + " of operator set '" + domain + "'",
                       file.path);
      if (!domains.insert(domain).second)
        return badFile(badVersion, "imports operator set '" + domain + "' twice", file.path);
    }
    return Status::success();
  }

  Status features() {
    if (graph.sparse_initializer_size() > 0)
      return unsupportedError(unsupportedFile, "sparse initializers are not supported", file.path);
    for (const onnxpb::Function &function : file.model.functions()) {
      ZC_RETURN_IF_ERROR(name(function.name(), "function"));
      if (!functions.emplace(functionKey(function.domain(), function.name(), function.overload()), &function).second)
        return badFile(badStructure, "function '" + function.name() + "' is defined twice", file.path);
    }
    return Status::success();
  }

  Status name(const std::string &text, const char *what) {
    if (text == "__metadata__") // which safetensors keep for themselves
      return unsupportedError(unsupportedForm,
                              std::string(what) + " name '" + text + "', which no file of weights can hold", file.path);
    if (!isValidUtf8(text)) // as the plan and everything that is written about it are
      return badFile(badStructure, std::string(what) + " name '" + text + "' is not UTF-8", file.path);
    if (static_cast<int64_t>(text.size()) <= limits.nameBytes)
      return Status::success();
    return badFile(tooLarge,
                   std::string(what) + " name has " + std::to_string(text.size()) + " bytes, more than " +
                       std::to_string(limits.nameBytes),
                   file.path);
  }

  bool isDefined(uint32_t name) const { return name < defined.size() && defined[name]; }
  bool isDefined(const std::string &text) const { return isDefined(file.names.find(text)); }

  /// Whether it was not defined before.
  bool add(uint32_t name) {
    if (isDefined(name))
      return false;
    if (name >= defined.size())
      defined.resize(std::max<size_t>(name + 1, 2 * defined.size()));
    defined[name] = true;
    order.push_back(name);
    return true;
  }

  /// `where` is asked for text only where there is an error.
  template <typename Where> Status define(const std::string &text, const char *what, const Where &where) {
    ZC_RETURN_IF_ERROR(name(text, what));
    if (add(file.names.number(text)))
      return Status::success();
    return badFile(badStructure, "value '" + text + "' is defined twice", where());
  }

  /// Undoes definitions but the first `count`.
  void forget(size_t count) {
    for (; order.size() > count; order.pop_back())
      defined[order.back()] = false;
  }

  Status inputs() {
    for (const onnxpb::Tensor &tensor : graph.initializer()) {
      if (tensor.name().empty())
        return badFile(badStructure, "an initializer has no name", file.path);
      ZC_RETURN_IF_ERROR(define(tensor.name(), "initializer", [&] { return file.path; }));
    }
    std::unordered_set<std::string> seen;
    for (const onnxpb::ValueInfo &input : graph.input()) {
      ZC_RETURN_IF_ERROR(name(input.name(), "input"));
      if (input.name().empty() || !seen.insert(input.name()).second)
        return badFile(badStructure, "graph input '" + input.name() + "' is unnamed or listed twice", file.path);
      // Before IR 4, and with keep_initializers_as_inputs, initializers are inputs as well.
      add(file.names.number(input.name()));
    }
    return Status::success();
  }

  /// The nodes of the model's graph, a subgraph or a function, whose inputs are defined already. `prefix` gives the
  /// text before their labels.
  template <typename Prefix> Status nodes(NodeList &list, const Prefix &prefix) {
    for (int i = 0; i < list.size(); ++i) {
      onnxpb::Node &node = list[i];
      if (i + kAhead < list.size())
        for (const std::string &output : list[i + kAhead].output())
          file.names.prefetch(output);
      auto label = [&] { return prefix() + nodeLabel(node, i); };
      auto where = [&] { return file.path + ": node \"" + label() + "\""; };
      ZC_RETURN_IF_ERROR(name(node.name(), "node"));
      ZC_RETURN_IF_ERROR(name(node.op_type(), "operator"));
      if (node.op_type().empty())
        return badFile(badStructure, "the node has no op_type", where());
      if (node.attribute_size() > limits.nodeAttributes)
        return badFile(tooLarge, "the node has " + std::to_string(node.attribute_size()) + " attributes", where());
      node.clear_value_name();
      node.mutable_value_name()->Reserve(node.input_size() + node.output_size());
      for (const std::string &input : node.input()) {
        const uint32_t number = input.empty() ? ValueNames::none : file.names.find(input);
        if (!input.empty() && !isDefined(number))
          return badFile(badStructure, "uses '" + input + "' before it is defined", where());
        node.add_value_name(number);
      }
      for (onnxpb::Attribute &attribute : *node.mutable_attribute())
        ZC_RETURN_IF_ERROR(subgraphs(attribute, label, where));
      for (const std::string &output : node.output()) {
        if (!output.empty())
          ZC_RETURN_IF_ERROR(define(output, "value", where));
        node.add_value_name(output.empty() ? ValueNames::none : order.back());
      }
    }
    return Status::success();
  }

  /// Of an attribute of `label`.
  template <typename Label, typename Where>
  Status subgraphs(onnxpb::Attribute &attribute, const Label &label, const Where &where) {
    if (attribute.has_g())
      ZC_RETURN_IF_ERROR(subgraph(*attribute.mutable_g(), label() + "/", where()));
    for (onnxpb::Graph &inner : *attribute.mutable_graphs())
      ZC_RETURN_IF_ERROR(subgraph(inner, label() + "/", where()));
    return Status::success();
  }

  /// Sees the names around it; its own end with it. Recursion is bounded by the parser's limit on nesting.
  Status subgraph(onnxpb::Graph &inner, const std::string &prefix, const std::string &at) {
    size_t before = order.size();
    auto where = [&] { return at; };
    for (const onnxpb::ValueInfo &input : inner.input())
      ZC_RETURN_IF_ERROR(define(input.name(), "input", where));
    for (const onnxpb::Tensor &tensor : inner.initializer())
      if (!isDefined(tensor.name()))
        ZC_RETURN_IF_ERROR(define(tensor.name(), "initializer", where));
    ZC_RETURN_IF_ERROR(nodes(*inner.mutable_node(), [&] { return prefix; }));
    for (const onnxpb::ValueInfo &output : inner.output())
      if (!isDefined(output.name()))
        return badFile(badStructure, "output '" + output.name() + "' of a subgraph is never computed", at);
    forget(before);
    return Status::success();
  }

  /// A function sees nothing but its inputs; a subgraph that is an attribute's default, what the function has.
  Status body(onnxpb::Function &function) {
    std::string at = file.path + ": function \"" + function.name() + "\"";
    forget(0);
    for (const std::string &input : function.input())
      ZC_RETURN_IF_ERROR(define(input, "input", [&] { return at; }));
    ZC_RETURN_IF_ERROR(nodes(*function.mutable_node(), [&] { return function.name() + "/"; }));
    for (onnxpb::Attribute &standard : *function.mutable_attribute_proto())
      ZC_RETURN_IF_ERROR(subgraphs(standard, [&] { return function.name(); }, [&] { return at; }));
    for (const std::string &output : function.output())
      if (!isDefined(output))
        return badFile(badStructure, "output '" + output + "' is never computed", at);
    return Status::success();
  }

  /// No function calls itself, and none is called deeper than the limit. Not recursive: chains may be long.
  Status callDepth() {
    enum { open = -1 };
    std::unordered_map<const onnxpb::Function *, int64_t> depth;
    struct Frame {
      const onnxpb::Function *function;
      std::vector<const onnxpb::Function *> calls;
      size_t next = 0;
    };
    std::vector<Frame> stack;
    auto enter = [&](const onnxpb::Function *function) {
      depth[function] = open;
      stack.push_back({function, callsOf(function->node())});
    };
    for (const onnxpb::Function &root : file.model.functions()) {
      if (!depth.count(&root))
        enter(&root);
      while (!stack.empty()) {
        Frame &frame = stack.back();
        if (frame.next < frame.calls.size()) {
          const onnxpb::Function *callee = frame.calls[frame.next++];
          auto known = depth.find(callee);
          if (known == depth.end())
            enter(callee);
          else if (known->second == open)
            return badFile(badStructure, "function '" + callee->name() + "' calls itself", file.path);
          continue;
        }
        int64_t deepest = 1;
        for (const onnxpb::Function *callee : frame.calls)
          deepest = std::max(deepest, depth[callee] + 1);
        if (deepest > limits.depth)
          return badFile(tooLarge,
                         "functions call each other " + std::to_string(deepest) + " deep, more than " +
                             std::to_string(limits.depth),
                         file.path);
        depth[frame.function] = deepest;
        stack.pop_back();
      }
    }
    return Status::success();
  }

  /// Functions called by these nodes and their subgraphs.
  std::vector<const onnxpb::Function *> callsOf(const NodeList &list) const {
    std::vector<const onnxpb::Function *> calls;
    for (const onnxpb::Node &node : list) {
      auto found = functions.find(functionKey(node.domain(), node.op_type(), node.overload()));
      if (found != functions.end())
        calls.push_back(found->second);
      for (const onnxpb::Attribute &attribute : node.attribute())
        if (attribute.has_g())
          for (const onnxpb::Function *inner : callsOf(attribute.g().node()))
            calls.push_back(inner);
    }
    return calls;
  }

  Status outputs() {
    if (graph.output_size() == 0)
      return badFile(badStructure, "the graph has no outputs", file.path);
    for (const onnxpb::ValueInfo &output : graph.output())
      if (!isDefined(output.name()))
        return badFile(badStructure, "graph output '" + output.name() + "' is never computed", file.path);
    return Status::success();
  }

  ModelFile &file;
  const onnxpb::Graph &graph;
  const ImportLimits &limits;
  std::vector<bool> defined;   ///< by number
  std::vector<uint32_t> order; ///< of definition
  std::unordered_map<std::string, const onnxpb::Function *> functions;
};

} // namespace

Status zc::importer::validateModel(ModelFile &file, const ImportLimits &limits) {
  return Validator(file, limits).run();
}
