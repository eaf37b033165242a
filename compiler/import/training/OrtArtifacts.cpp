//===- OrtArtifacts.cpp - training artifacts of ONNX Runtime -------------------===//
#include "compiler/import/training/OrtArtifacts.h"
#include "compiler/import/base/Errors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace zc;
using namespace zc::importer;
using llvm::StringRef;

namespace {

constexpr const char *domain = "com.microsoft";
constexpr StringRef bufferSuffix = "_grad.accumulation.buffer";

bool isAccumulator(const onnxpb::Node &node) {
  return node.domain() == domain && node.op_type() == "InPlaceAccumulatorV2";
}

/// Removes the elements that `unwanted` holds for, in order.
template <typename Repeated, typename Fn> void removeIf(Repeated &list, Fn unwanted) {
  int kept = 0;
  for (int i = 0; i < list.size(); ++i)
    if (!unwanted(list.Get(i)))
      list.SwapElements(kept++, i);
  list.DeleteSubrange(kept, list.size() - kept);
}

void addEntry(onnxpb::StringStringEntry &entry, const char *key, const std::string &value) {
  entry.set_key(key);
  entry.set_value(value);
}

/// The parameter as an initializer whose bytes lie in the checkpoint, with the word that torch.export would have for
/// it.
void addInitializer(onnxpb::Graph &graph, const CheckpointTensor &from, const std::string &file, bool trained) {
  onnxpb::Tensor &tensor = *graph.add_initializer();
  tensor.set_name(from.name);
  tensor.set_data_type(from.dataType);
  for (int64_t dim : from.dims)
    tensor.add_dims(dim);
  tensor.set_data_location(1);
  addEntry(*tensor.add_external_data(), "location", file);
  addEntry(*tensor.add_external_data(), "offset", std::to_string(from.offset));
  addEntry(*tensor.add_external_data(), "length", std::to_string(from.bytes));
  onnxpb::ValueInfo &info = *graph.add_value_info();
  info.set_name(from.name);
  addEntry(*info.add_metadata_props(), "pkg.torch.export.graph_signature.InputSpec.kind",
           trained ? "PARAMETER" : "CONSTANT_TENSOR");
}

} // namespace

bool zc::importer::isOrtTrainingModel(const onnxpb::Graph &graph) { return llvm::any_of(graph.node(), isAccumulator); }

Status zc::importer::adoptOrtTrainingModel(ModelFile &model, const std::string &checkpoint) {
  onnxpb::Graph &graph = *model.model.mutable_graph();
  llvm::StringSet<> trained, notInputs, notOutputs;
  for (const onnxpb::Node &node : graph.node()) {
    if (!isAccumulator(node))
      continue;
    if (node.input_size() < 3 || node.output_size() < 1 || !StringRef(node.input(0)).ends_with(bufferSuffix))
      return unsupportedError(unsupportedFile, "accumulates a gradient in another way than ONNX Runtime's artifacts",
                              model.path + ": node \"" + nodeLabel(node, 0) + "\"");
    trained.insert(StringRef(node.input(0)).drop_back(bufferSuffix.size()));
    notInputs.insert(node.input(0));
    notInputs.insert(node.input(2));
    for (const std::string &output : node.output())
      notOutputs.insert(output);
  }
  auto file = io::File::openBeneath(model.folder, checkpoint);
  if (!file.ok()) {
    Error error =
        badFile(badCheckpoint, "the parameters' values are in a checkpoint: " + file.error().message, model.path,
                "put ONNX Runtime's checkpoint beside the model, or name it with --ort-checkpoint");
    return error;
  }
  auto tensors = readOrtCheckpoint(*file);
  if (!tensors.ok())
    return tensors.error();
  llvm::StringSet<> inputs;
  for (const onnxpb::ValueInfo &input : graph.input())
    inputs.insert(input.name());
  for (const CheckpointTensor &tensor : *tensors)
    if (inputs.contains(tensor.name) && notInputs.insert(tensor.name).second) {
      addInitializer(graph, tensor, checkpoint, trained.contains(tensor.name));
      trained.erase(tensor.name);
    }
  if (!trained.empty())
    return badFile(badCheckpoint, "has no values for parameter '" + trained.begin()->first().str() + "' of the model",
                   file->path());
  auto isNamed = [](const llvm::StringSet<> &names) {
    return [&](const onnxpb::ValueInfo &info) { return names.contains(info.name()); };
  };
  removeIf(*graph.mutable_input(), isNamed(notInputs));
  removeIf(*graph.mutable_output(), isNamed(notOutputs));
  removeIf(*graph.mutable_node(), isAccumulator);
  return {};
}

//===-- the rule -----------------------------------------------------------------===//

static Result<OwnOptimizer> readRule(const onnxpb::Node &node, const std::string &where) {
  llvm::StringMap<double> values;
  for (const onnxpb::Attribute &a : node.attribute())
    values[a.name()] = a.has_f() ? a.f() : static_cast<double>(a.i());
  auto value = [&](StringRef name, double fallback) {
    auto found = values.find(name);
    return found == values.end() ? fallback : found->second;
  };
  auto refuse = [&](const std::string &what) { return unsupportedError(unsupportedForm, what, where); };
  OwnOptimizer own;
  own.sumsGradients = true;
  if (node.op_type() == "SGDOptimizerV2") {
    own.settings.rule = UpdateRule::sgd;
    return own;
  }
  own.settings.rule = UpdateRule::adamw;
  own.settings.beta1 = value("alpha", 0.9f);
  own.settings.beta2 = value("beta", 0.999f);
  own.settings.eps = value("epsilon", 1e-8f);
  own.settings.weightDecay = value("weight_decay", 1e-2f);
  own.epsUncorrected = value("adam_mode", 0) == 1;
  if (value("correct_bias", 1) != 1)
    return refuse("AdamWOptimizer without bias correction");
  if (own.epsUncorrected && own.settings.weightDecay != 0)
    return refuse("AdamWOptimizer of adam_mode 1 with weight decay");
  return own;
}

Result<std::optional<OwnOptimizer>> zc::importer::readOrtOptimizer(const ModelFile &model,
                                                                   const std::optional<std::string> &given,
                                                                   const ImportLimits &limits) {
  const std::string name = given.value_or("optimizer_model.onnx");
  auto probe = io::File::openBeneath(model.folder, name);
  if (!probe.ok() && given)
    return probe.error();
  if (!probe.ok())
    return std::optional<OwnOptimizer>();
  std::string path = model.folder + "/" + name;
  auto file = openModel(path, limits);
  if (!file.ok())
    return file.error();
  std::optional<OwnOptimizer> own;
  double maxNorm = 0;
  const onnxpb::Graph &graph = (*file)->graph();
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnxpb::Node &node = graph.node(i);
    std::string where = path + ": node \"" + nodeLabel(node, i) + "\"";
    if (node.op_type() == "InplaceClipGradNorm") {
      maxNorm = 1;
      for (const onnxpb::Attribute &a : node.attribute())
        if (a.name() == "max_norm")
          maxNorm = a.f();
    } else if (!own && (node.op_type() == "AdamWOptimizer" || node.op_type() == "SGDOptimizerV2")) {
      auto rule = readRule(node, where);
      if (!rule.ok())
        return rule.error();
      own = *rule;
    } else if (!llvm::StringRef(node.op_type()).starts_with("Sequence")) {
      return unsupportedError(unsupportedOp, "'" + node.op_type() + "' in an optimizer graph is not known", where,
                              "give --optimizer to train by a rule of this program");
    }
  }
  if (!own)
    return unsupportedError(unsupportedFile, "has no optimizer node", path, "give --optimizer");
  own->settings.maxNorm = maxNorm;
  return own;
}
