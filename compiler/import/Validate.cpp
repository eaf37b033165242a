//===- Validate.cpp - the structure of an ONNX model ---------------------------===//
#include "compiler/import/Errors.h"
#include "compiler/import/ModelFile.h"

#include <charconv>
#include <unordered_set>

using namespace zc;
using namespace zc::importer;

namespace {

constexpr int64_t minIrVersion = 3, maxIrVersion = 14;

class Validator {
public:
  Validator(const ModelFile &file, const ImportLimits &limits) : file(file), graph(file.graph()), limits(limits) {}

  Status run() {
    ZC_RETURN_IF_ERROR(versions());
    ZC_RETURN_IF_ERROR(features());
    ZC_RETURN_IF_ERROR(inputs());
    ZC_RETURN_IF_ERROR(nodes());
    return outputs();
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
    for (const onnxpb::Function &function : file.model.functions())
      functions.insert(function.domain() + "." + function.name());
    return Status::success();
  }

  Status name(const std::string &text, const char *what) {
    if (static_cast<int64_t>(text.size()) <= limits.nameBytes)
      return Status::success();
    return badFile(tooLarge,
                   std::string(what) + " name has " + std::to_string(text.size()) + " bytes, more than " +
                       std::to_string(limits.nameBytes),
                   file.path);
  }

  Status define(const std::string &text, const char *what, const std::string &where) {
    ZC_RETURN_IF_ERROR(name(text, what));
    if (defined.insert(text).second)
      return Status::success();
    return badFile(badStructure, "value '" + text + "' is defined twice", where);
  }

  Status inputs() {
    for (const onnxpb::Tensor &tensor : graph.initializer()) {
      if (tensor.name().empty())
        return badFile(badStructure, "an initializer has no name", file.path);
      ZC_RETURN_IF_ERROR(define(tensor.name(), "initializer", file.path));
    }
    std::unordered_set<std::string> seen;
    for (const onnxpb::ValueInfo &input : graph.input()) {
      ZC_RETURN_IF_ERROR(name(input.name(), "input"));
      if (input.name().empty() || !seen.insert(input.name()).second)
        return badFile(badStructure, "graph input '" + input.name() + "' is unnamed or listed twice", file.path);
      // Before IR 4, and with keep_initializers_as_inputs, initializers are inputs as well.
      defined.insert(input.name());
    }
    return Status::success();
  }

  Status nodes() {
    for (int i = 0; i < graph.node_size(); ++i) {
      const onnxpb::Node &node = graph.node(i);
      std::string where = file.path + ": node \"" + nodeLabel(node, i) + "\"";
      ZC_RETURN_IF_ERROR(name(node.name(), "node"));
      ZC_RETURN_IF_ERROR(name(node.op_type(), "operator"));
      if (node.op_type().empty())
        return badFile(badStructure, "the node has no op_type", where);
      if (node.attribute_size() > limits.nodeAttributes)
        return badFile(tooLarge, "the node has " + std::to_string(node.attribute_size()) + " attributes", where);
      if (functions.count(node.domain() + "." + node.op_type()))
        return unsupportedError(unsupportedFile, "calls local function '" + node.op_type() + "'", where,
                                "export without local functions (export_modules_as_functions=False)");
      for (const std::string &input : node.input())
        if (!input.empty() && !defined.count(input))
          return badFile(badStructure, "uses '" + input + "' before it is defined", where);
      for (const std::string &output : node.output())
        if (!output.empty())
          ZC_RETURN_IF_ERROR(define(output, "value", where));
    }
    return Status::success();
  }

  Status outputs() {
    if (graph.output_size() == 0)
      return badFile(badStructure, "the graph has no outputs", file.path);
    for (const onnxpb::ValueInfo &output : graph.output())
      if (!defined.count(output.name()))
        return badFile(badStructure, "graph output '" + output.name() + "' is never computed", file.path);
    return Status::success();
  }

  const ModelFile &file;
  const onnxpb::Graph &graph;
  const ImportLimits &limits;
  std::unordered_set<std::string> defined, functions;
};

} // namespace

Status zc::importer::setLimit(ImportLimits &limits, const std::string &text) {
  struct Named {
    const char *name;
    int64_t ImportLimits::*limit;
  };
  constexpr Named table[] = {{"nodes", &ImportLimits::nodes},
                             {"node-attributes", &ImportLimits::nodeAttributes},
                             {"name-bytes", &ImportLimits::nameBytes},
                             {"rank", &ImportLimits::rank},
                             {"folded-elements", &ImportLimits::foldedElements},
                             {"folding-work", &ImportLimits::foldingWork}};
  size_t equals = text.find('=');
  std::string name = text.substr(0, equals), names = "model-bytes";
  int64_t value = -1;
  if (equals != std::string::npos) {
    auto [end, problem] = std::from_chars(text.data() + equals + 1, text.data() + text.size(), value);
    value = problem == std::errc() && end == text.data() + text.size() ? value : -1;
  }
  for (const Named &entry : table) {
    names += std::string(", ") + entry.name;
    if (entry.name == name && value >= 0)
      return limits.*entry.limit = value, Status();
  }
  if (name == "model-bytes" && value >= 0)
    return limits.modelBytes = static_cast<uint64_t>(value), Status();
  return makeError(Code::usage, badLimit, "'" + text + "' is not NAME=N with N >= 0", "--limit",
                   "names of limits are " + names);
}

Status zc::importer::validateModel(const ModelFile &file, const ImportLimits &limits) {
  return Validator(file, limits).run();
}
