//===- TrainingInfo.cpp - models that bring their own training algorithm -------===//
#include "compiler/import/training/TrainingInfo.h"
#include "compiler/import/base/Errors.h"

#include "llvm/ADT/StringMap.h"

#include <cstring>
#include <tuple>

using namespace zc;
using namespace zc::importer;

namespace {

constexpr const char *trainingDomain = "ai.onnx.preview.training";

class Reader {
public:
  Reader(ModelFile &model, const onnxpb::TrainingInfo &info)
      : model(model), info(info), where(model.path + ": training_info") {}

  Result<OwnOptimizer> run(std::string &loss) {
    index();
    for (const onnxpb::StringStringEntry &binding : info.update_binding())
      ZC_RETURN_IF_ERROR(bind(binding.key(), binding.value()));
    if (trained.empty())
      return refuse("updates no initializer by the gradient of a loss");
    loss = lossName;
    mark();
    return own;
  }

private:
  Error refuse(const std::string &what) const {
    return unsupportedError(unsupportedFile, "the training algorithm " + what, where,
                            "supported are x - r * g, Adam and Momentum of " + std::string(trainingDomain) +
                                ", with g of one Gradient; or export the forward graph and give --optimizer");
  }

  void index() {
    for (const onnxpb::Graph *graph : {&model.graph(), &info.algorithm()}) {
      for (const onnxpb::Node &node : graph->node())
        for (int i = 0; i < node.output_size(); ++i)
          producers[node.output(i)] = {&node, i};
      for (const onnxpb::Tensor &tensor : graph->initializer())
        tensors[tensor.name()] = &tensor;
    }
  }

  const onnxpb::Node *producerOf(std::string name, int &output) const {
    for (int steps = 0; steps < 1000; ++steps) {
      auto found = producers.find(name);
      if (found == producers.end())
        return nullptr;
      output = found->second.second;
      if (found->second.first->op_type() != "Identity" || found->second.first->input_size() < 1)
        return found->second.first;
      name = found->second.first->input(0);
    }
    return nullptr;
  }

  /// One state variable and what it becomes.
  Status bind(const std::string &state, const std::string &value) {
    if (!tensors.count(state))
      return badFile(badStructure, "update binding '" + state + "' names no initializer", where);
    int output = 0;
    const onnxpb::Node *node = producerOf(value, output);
    if (!node)
      return badFile(badStructure, "update binding '" + state + "': nothing computes '" + value + "'", where);
    if (node->domain() == trainingDomain)
      return bindRule(*node, state, output);
    if (node->op_type() == "Sub" && node->input_size() == 2 && node->input(0) == state)
      return bindStep(state, node->input(1));
    // The step counter of Adam: t + 1.
    if (node->op_type() == "Add" && tensors[state]->data_type() == 7)
      return {};
    return refuse("sets '" + state + "' by '" + node->op_type() + "'");
  }

  /// x - r g
  Status bindStep(const std::string &state, const std::string &step) {
    int output = 0;
    const onnxpb::Node *product = producerOf(step, output);
    if (!product || product->op_type() != "Mul" || product->input_size() != 2)
      return refuse("subtracts something else than r * g from '" + state + "'");
    bool rateFirst = number(product->input(0)).has_value();
    auto rate = number(product->input(rateFirst ? 0 : 1));
    if (!rate)
      return refuse("has a learning rate that is no constant");
    UpdateSettings settings = OwnOptimizer().settings;
    settings.lr = *rate;
    ZC_RETURN_IF_ERROR(use(settings, false));
    return train(state, product->input(rateFirst ? 1 : 0));
  }

  /// Adam(R, T, X.., G.., V.., H..), Momentum(R, T, X.., G.., V..)
  Status bindRule(const onnxpb::Node &node, const std::string &state, int output) {
    int groups = node.op_type() == "Adam" ? 4 : node.op_type() == "Momentum" ? 3 : 0;
    if (groups == 0 || (node.input_size() - 2) % groups != 0 || node.input_size() < 2 + groups)
      return refuse("uses '" + node.op_type() + "' with " + std::to_string(node.input_size()) + " inputs");
    int count = (node.input_size() - 2) / groups;
    if (output >= count) // moments, which start at zero here as well
      return isZero(state) ? Status() : Status(refuse("starts with moments '" + state + "' that are not zero"));
    if (node.input(2 + output) != state)
      return refuse("sets '" + state + "' to the update of '" + node.input(2 + output) + "'");
    auto rate = number(node.input(0));
    if (!rate)
      return refuse("has a learning rate that is no constant");
    auto attribute = [&](const char *name, double fallback) {
      for (const onnxpb::Attribute &a : node.attribute())
        if (a.name() == name)
          return static_cast<double>(a.f());
      return fallback;
    };
    auto text = [&](const char *name) {
      for (const onnxpb::Attribute &a : node.attribute())
        if (a.name() == name)
          return a.s();
      return std::string();
    };
    if (attribute("norm_coefficient_post", 0) != 0)
      return refuse("has a norm_coefficient_post");
    if (groups == 3 && (text("mode") != "standard" || attribute("beta", 1) != 1))
      return refuse("uses Momentum of mode '" + text("mode") + "' or with a beta other than 1");
    if (groups == 4)
      ZC_RETURN_IF_ERROR(checkCount(node.input(1)));
    UpdateSettings settings = OwnOptimizer().settings;
    settings.rule = groups == 4 ? UpdateRule::adam : UpdateRule::momentum;
    settings.lr = *rate;
    settings.weightDecay = attribute("norm_coefficient", 0);
    if (groups == 3) {
      settings.momentum = attribute("alpha", 0);
    } else {
      settings.beta1 = attribute("alpha", 0.9f);
      settings.beta2 = attribute("beta", 0.999f);
      settings.eps = attribute("epsilon", 0);
    }
    ZC_RETURN_IF_ERROR(use(settings, groups == 4));
    return train(state, node.input(2 + count + output));
  }

  /// One rule with one set of numbers for all that is trained.
  Status use(const UpdateSettings &settings, bool epsUncorrected) {
    auto numbers = [](const UpdateSettings &s) {
      return std::make_tuple(s.rule, s.lr, s.beta1, s.beta2, s.eps, s.momentum, s.weightDecayOrDefault());
    };
    if (own.settings.lr && numbers(own.settings) != numbers(settings))
      return refuse("has several rules, learning rates or numbers of a rule");
    own.settings = settings;
    own.epsUncorrected = epsUncorrected;
    return {};
  }

  /// Adam corrects its moments by T, not at all where T is 0; here by the number of the step, which is 1 in the first:
  /// a counter that begins with 1 and is 1 more after each step, or what it becomes where it begins with 0.
  Status checkCount(const std::string &name) const {
    int output = 0;
    const onnxpb::Node *next = producerOf(name, output);
    auto counter = next ? counterOf(*next) : name;
    auto first = counter ? integer(*counter) : std::nullopt;
    if (!first || *first + (next ? 1 : 0) != 1)
      return refuse("has an Adam whose T is not 1 in the first step, which then corrects its moments otherwise");
    for (const onnxpb::StringStringEntry &binding : info.update_binding())
      if (binding.key() == *counter)
        if (const onnxpb::Node *grown = producerOf(binding.value(), output); grown && counterOf(*grown) == counter)
          return {};
    return refuse("has an Adam whose T is not 1 more after each step");
  }

  /// The variable of a sum of one and 1.
  std::optional<std::string> counterOf(const onnxpb::Node &node) const {
    if (node.op_type() != "Add" || node.input_size() != 2)
      return std::nullopt;
    for (int one : {1, 0})
      if (integer(node.input(one)) == 1 && integer(node.input(1 - one)))
        return node.input(1 - one);
    return std::nullopt;
  }

  Status train(const std::string &state, const std::string &gradient) {
    int output = 0;
    const onnxpb::Node *node = producerOf(gradient, output);
    std::string y, x;
    for (int i = 0; node && i < node->attribute_size(); ++i) {
      const onnxpb::Attribute &a = node->attribute(i);
      y = a.name() == "y" ? a.s() : y;
      x = a.name() == "xs" && output < a.strings_size() ? a.strings(output) : x;
    }
    if (!node || node->op_type() != "Gradient" || x != state || y.empty() || (!lossName.empty() && lossName != y))
      return refuse("updates '" + state + "' by something else than the gradient of the one loss");
    if (output < node->input_size() && node->input(output) != state)
      return refuse("takes the gradient by '" + state + "' at '" + node->input(output) + "', which is another value");
    lossName = y;
    trained[state] = true;
    return {};
  }

  /// A float scalar that is stored in the file.
  std::optional<double> number(const std::string &name) const {
    auto found = tensors.find(name);
    if (found == tensors.end() || found->second->data_type() != 1)
      return std::nullopt;
    const onnxpb::Tensor &tensor = *found->second;
    float value = 0;
    if (tensor.raw_data().size() == sizeof value)
      std::memcpy(&value, tensor.raw_data().data(), sizeof value);
    else if (tensor.float_data_size() == 1)
      value = tensor.float_data(0);
    else
      return std::nullopt;
    return value;
  }

  /// An i64 scalar that is stored in the file.
  std::optional<int64_t> integer(const std::string &name) const {
    auto found = tensors.find(name);
    if (found == tensors.end() || found->second->data_type() != 7)
      return std::nullopt;
    const onnxpb::Tensor &tensor = *found->second;
    int64_t value = 0;
    if (tensor.raw_data().size() == sizeof value)
      std::memcpy(&value, tensor.raw_data().data(), sizeof value);
    else if (tensor.int64_data_size() == 1)
      value = tensor.int64_data(0);
    else
      return std::nullopt;
    return value;
  }

  bool isZero(const std::string &name) const {
    const onnxpb::Tensor &tensor = *tensors.lookup(name);
    for (float value : tensor.float_data())
      if (value != 0)
        return false;
    for (char byte : tensor.raw_data())
      if (byte != 0)
        return false;
    return tensor.data_location() == 0 &&
           (!model.payloads.count(&tensor) || tensor.has_raw_data() || tensor.float_data_size() > 0);
  }

  /// Says of every float initializer whether it trains, and makes the loss an output.
  void mark() {
    onnxpb::Graph &graph = *model.model.mutable_graph();
    for (const onnxpb::Tensor &tensor : graph.initializer()) {
      onnxpb::ValueInfo &value = *graph.add_value_info();
      value.set_name(tensor.name());
      onnxpb::StringStringEntry &entry = *value.add_metadata_props();
      entry.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
      entry.set_value(trained.count(tensor.name()) ? "PARAMETER" : "CONSTANT_TENSOR");
    }
    for (const onnxpb::ValueInfo &output : graph.output())
      if (output.name() == lossName)
        return;
    graph.add_output()->set_name(lossName);
  }

  ModelFile &model;
  const onnxpb::TrainingInfo &info;
  const std::string where;
  llvm::StringMap<std::pair<const onnxpb::Node *, int>> producers;
  llvm::StringMap<const onnxpb::Tensor *> tensors;
  llvm::StringMap<bool> trained;
  std::string lossName;
  OwnOptimizer own;
};

} // namespace

Result<OwnOptimizer> zc::importer::adoptTrainingInfo(ModelFile &model, std::string &loss) {
  if (model.model.training_info_size() != 1)
    return unsupportedError(
        unsupportedFile, "has " + std::to_string(model.model.training_info_size()) + " training_info; one is supported",
        model.path);
  return Reader(model, model.model.training_info(0)).run(loss);
}
