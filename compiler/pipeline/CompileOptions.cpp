//===- CompileOptions.cpp - options by name, and what goes with what --------------------===//

#include "compiler/pipeline/CompileOptions.h"
#include "base/Shell.h"
#include "base/Suggest.h"
#include "compiler/config/DeepSpeedConfig.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <sstream>

using namespace zc;

/// As --world-size.
static constexpr int64_t kMostRanks = 65536;

/// Of a mesh; data stands for the first two.
static constexpr const char *kAxes[] = {"node", "local", "data", "model"};

/// "data=8,model=4"
static Status readMesh(const std::string &text, std::vector<AskedAxis> &mesh) {
  auto wrong = [&](const std::string &what) { return optionError(quotedText(text) + " " + what, "mesh"); };
  mesh.clear();
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    AskedAxis axis{part.substr(0, equals)};
    const char *end = part.data() + part.size(), *begin = equals == std::string::npos ? end : part.data() + equals + 1;
    if (auto [stop, problem] = std::from_chars(begin, end, axis.size); problem != std::errc() || stop != end)
      return wrong("is no mesh such as data=8,model=4 or node=2,local=4,model=2");
    if (axis.size < 1 || axis.size > kMostRanks)
      return wrong("has an axis of " + std::to_string(axis.size) + " ranks, which is not in [1, " +
                   std::to_string(kMostRanks) + "]");
    if (std::find(std::begin(kAxes), std::end(kAxes), axis.name) == std::end(kAxes))
      return wrong("has an axis of another name than node, local, data and model");
    for (const AskedAxis &before : mesh)
      if (before.name == axis.name)
        return wrong("has " + axis.name + " twice");
    mesh.push_back(axis);
  }
  return mesh.empty() ? wrong("has no axis") : Status::success();
}

GradStage zc::gradStageOf(const Strategy &strategy) {
  const ShardOptions &shard = strategy.shard;
  GradStage stage{strategy.grad};
  stage.target = strategy.schedule.target;
  stage.largestWhole = shard.tileLinear != 0 ? shard.tileBytes() : 0;
  stage.modelRanks = shard.model;
  return stage;
}

OptionList zc::listOptions(CompileOptions &options) {
  OptionList list;
  listOptions(options.import, list);
  list.add("seed", options.seed, "of dropout and data order");
  listOptions(options.strategy.grad, list);
  list.chosen(false);
  list.group("Training (torch's definitions and defaults)", Option::Needs::training);
  list.add("with-eval", options.withEval,
           "the plan evaluates as well (zero-run --eval-data, --eval-tokens): the model's loss forward only, in the "
           "memory that training has");
  listOptions(options.strategy.shard, list);
  list.chosen(false);
  list.group("Partitioning");
  list.add(
      "mesh", Option::Kind::value, "AXIS=N,...",
      [&options](const std::string &text) { return readMesh(text, options.mesh); },
      "all ranks by named axes, outermost first: data=8,model=4, model=4,data=8 or node=2,local=4,model=4; instead of "
      "--world-size, --ranks-per-node, --tensor-parallel");
  listOptions(options.strategy.schedule, list);
  return list;
}

std::string zc::commandLine(CompileOptions options) {
  std::string command = "zero-compile " + shellQuoted(options.model);
  for (const Option &option : listOptions(options).options) {
    auto given = options.given.find(option.name);
    if (given == options.given.end())
      continue;
    for (const std::string &text : given->second)
      command += flagText(option, shellQuoted(text));
  }
  return command + (options.isGiven("auto") ? " --auto" : "");
}

/// A forward-only plan is told nothing about training, and evaluates unless it is told otherwise.
static Status completeForwardOnly(CompileOptions &c) {
  c.import.forwardOnly = c.strategy.grad.forwardOnly;
  if (!c.import.forwardOnly)
    return c.import.outputs.empty()
               ? Status::success()
               : optionError("a plan that trains hands over no outputs; add --forward-only", "outputs");
  for (const Option &option : listOptions(c).options)
    if (option.needs != Option::Needs::nothing && c.isGiven(option.name))
      return optionError("a plan that is --forward-only trains nothing", option.name);
  if (!c.isGiven("dropout"))
    c.import.dropout = importer::DropoutPolicy::off;
  if (!c.isGiven("batch-norm"))
    c.import.batchNorm = importer::BatchNormPolicy::eval;
  return Status::success();
}

/// Options of the loss scale are of fp16, and a fixed one has no rule.
static Status checkLossScale(CompileOptions &c) {
  const GradOptions &grad = c.strategy.grad;
  for (const Option &option : listOptions(c).options) {
    if (option.needs != Option::Needs::lossScale || !c.isGiven(option.name))
      continue;
    if (grad.precision != Precision::fp16)
      return optionError("only --precision fp16 scales the loss", option.name);
    if (grad.lossScale > 0 && option.name != "loss-scale")
      return optionError("a fixed --loss-scale does not change", option.name);
  }
  // What is kept is of another scale than what it is added to, and stays infinite after an overflow.
  if (grad.precision == Precision::fp16 && c.strategy.shard.errorFeedback)
    return makeError(Code::unsupported, 122,
                     "feedback to gradients that a loss scale multiplies is not in this version",
                     "--quantize-error-feedback", "leave it out, or use --precision bf16");
  return Status::success();
}

/// What is cut is what recomputation keeps, over ranks that share samples.
static Status checkPartitionedActivations(const CompileOptions &c) {
  if (!c.strategy.shard.partitionActivations)
    return Status::success();
  std::string missing;
  if (c.strategy.shard.model < 2)
    missing = "ranks that share samples, --tensor-parallel T";
  if (c.strategy.grad.checkpoint == CheckpointPolicy::none && !c.recomputationIsOpen)
    missing += (missing.empty() ? "" : ", and ") + std::string("recomputation, --checkpoint-activations block");
  return missing.empty() ? Status::success() : optionError("it needs " + missing, "partition-activations");
}

/// A machine's name says what the plan is for, and what it is for which rates to take where nothing is measured.
static void completeTarget(CompileOptions &c) {
  ScheduleOptions &schedule = c.strategy.schedule;
  if (schedule.machine.preset && !c.isGiven("target"))
    schedule.target = schedule.machine.preset->target;
  if (!schedule.machine.isGiven() && schedule.target == Target::cuda)
    schedule.machine.preset = findMachine("h100");
}

/// As it was given.
static std::string textOf(const std::vector<AskedAxis> &mesh) {
  std::string text;
  for (const AskedAxis &axis : mesh)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

/// How many of the data axes' names stand before that of the model axis.
static ModelPlace placeOfModel(const std::vector<AskedAxis> &mesh) {
  auto place = [&](const char *name) {
    return std::find_if(mesh.begin(), mesh.end(), [&](const AskedAxis &axis) { return axis.name == name; });
  };
  auto model = place("model"), none = mesh.end();
  auto isInside = [&](const char *name) { return place(name) != none && model < place(name); };
  if (isInside("node") || isInside("data") || (isInside("local") && place("node") == none))
    return ModelPlace::outermost;
  return isInside("local") ? ModelPlace::beforeLocal : ModelPlace::innermost;
}

/// World size, ranks per node and ranks that share samples, as a mesh with named axes says; nothing where none is asked
/// for. Errors: usage (other options say other sizes), unsupported (an order of axes that no plan has).
static Status resolveMesh(CompileOptions &c) {
  if (c.mesh.empty())
    return Status::success();
  std::map<std::string, int64_t> sizes;
  int64_t ranks = 1;
  for (const AskedAxis &axis : c.mesh) {
    sizes[axis.name] = axis.size;
    ranks *= axis.size; // at most four sizes of 16 bits
    if (ranks > kMostRanks)
      return optionError(textOf(c.mesh) + " is more than " + std::to_string(kMostRanks) + " ranks", "mesh");
  }
  auto size = [&](const char *name) { return sizes.count(name) ? sizes[name] : 1; };
  if (sizes.count("data") && sizes.count("node") + sizes.count("local") > 0)
    return optionError("data is node x local: name it, or these two", "mesh");
  bool afterLocal = false;
  for (const AskedAxis &axis : c.mesh) {
    afterLocal |= axis.name == "local";
    if (afterLocal && axis.name == "node")
      return makeError(Code::unsupported, 135, "local before node is not in this version", "--mesh",
                       "the model axis may stand before, between and behind node and local");
  }
  ShardOptions &shard = c.strategy.shard;
  auto take = [&](const char *name, int64_t &field, int64_t value) -> Status {
    if (c.isGiven(name) && field != value)
      return optionError(
          textOf(c.mesh) + " says " + std::to_string(value) + ", --" + name + " " + std::to_string(field), "mesh");
    field = value;
    return Status::success();
  };
  ZC_RETURN_IF_ERROR(take("world-size", shard.worldSize, ranks));
  ZC_RETURN_IF_ERROR(take("tensor-parallel", shard.model, size("model")));
  shard.modelPlace = placeOfModel(c.mesh);
  return sizes.count("node") || sizes.count("local")
             ? take("ranks-per-node", shard.ranksPerNode, size("local") * size("model"))
             : Status::success();
}

Status zc::applyConfig(CompileOptions &c, const OptionList &list, const std::string &path) {
  c.config.path = path;
  ZC_RETURN_IF_ERROR(resolveMesh(c));
  const ShardOptions &shard = c.strategy.shard;
  if (shard.worldSize % shard.model != 0) // its batch sizes are of so many ranks that have samples of their own
    ZC_RETURN_IF_ERROR(validate(shard));
  Result<AppliedConfig> applied = applyDeepSpeedConfig(path, list, shard.dataDegree(), c.given);
  if (!applied)
    return applied.error();
  c.config = std::move(*applied);
  return Status::success();
}

Status zc::complete(CompileOptions &c) {
  if (c.model.empty())
    return optionError("no model is given", "");
  ZC_RETURN_IF_ERROR(resolveMesh(c));
  ZC_RETURN_IF_ERROR(completeForwardOnly(c));
  ZC_RETURN_IF_ERROR(checkLossScale(c));
  ZC_RETURN_IF_ERROR(checkPartitionedActivations(c));
  completeTarget(c);
  ZC_RETURN_IF_ERROR(validate(gradStageOf(c.strategy)));
  if (c.strategy.schedule.overlapTensorParallel != TensorParallelOverlap::off && c.strategy.shard.model < 2)
    return optionError("it is about ranks that share samples: --tensor-parallel T, of 2 or more, is missing",
                       "overlap-tensor-parallel");
  ShardOptions shard = c.strategy.shard;
  if (!shard.delayUpdate && c.isGiven("delay-after"))
    return optionError("it says when --delay-update begins", "delay-after");
  shard.delayUpdate &= !c.offloadIsOpen;
  if (c.stageIsOpen)
    shard.stage = 3; // which takes everything
  return validate(shard);
}

std::vector<std::string> zc::warningsOfNoEffect(const CompileOptions &options, const Strategy &strategy) {
  const ShardOptions &shard = strategy.shard;
  const bool sends = shard.dataDegree() > 1, gathers = shard.stage == 3 && sends;
  const bool isOneNode = shard.perNode() == shard.worldSize;
  const bool isOneWay = isOneNode || shard.ranksPerNode == shard.model;
  std::vector<std::string> warnings;
  if (shard.offloadOptimizer == Offload::none && options.isGiven("offload-ratio"))
    warnings.emplace_back(
        "without --offload-optimizer there is no update on the host: --offload-ratio changes nothing");
  if (shard.stage < 3 && (shard.quantizeWeights != WeightFormat::none || shard.hierarchical))
    warnings.emplace_back(
        "below stage 3 parameters are not gathered: --quantize-weights and --hierarchical change nothing");
  else if (!sends && (shard.quantizeWeights != WeightFormat::none || shard.hierarchical))
    warnings.emplace_back(
        "with one data-parallel rank parameters are not gathered: --quantize-weights and --hierarchical change "
        "nothing");
  else if (shard.hierarchical && isOneNode)
    warnings.emplace_back("with one node (--ranks-per-node) no gather leaves it: --hierarchical changes nothing");
  if (shard.hierarchicalCollectives && isOneWay)
    warnings.emplace_back("with one node, or one data-parallel rank in each (--ranks-per-node), there is one way: "
                          "--hierarchical-collectives changes nothing");
  if (!sends && shard.quantizeGradients != GradientFormat::none)
    warnings.emplace_back("with one data-parallel rank no gradient is sent: --quantize-gradients changes nothing");
  if (strategy.grad.precision == Precision::fp32 && shard.gradAccumDtype != GradAccumDtype::parameters)
    warnings.emplace_back("gradients of --precision fp32 are kept in fp32: --grad-accum-dtype changes nothing");
  if (shard.errorFeedback && shard.quantizeGradients == GradientFormat::none)
    warnings.emplace_back("without --quantize-gradients nothing is lost: --quantize-error-feedback changes nothing");
  if (shard.quantizeBlock != 0 && shard.quantizeGradients == GradientFormat::none &&
      shard.quantizeWeights == WeightFormat::none)
    warnings.emplace_back(
        "without --quantize-weights and --quantize-gradients nothing has scales: --quantize-block changes nothing");
  if (shard.residency > 0 && shard.quantizeWeights != WeightFormat::none)
    warnings.emplace_back("quantized weights are gathered each time: --residency changes nothing");
  else if (shard.residency > 0 && !gathers && shard.offloadParam == Offload::none)
    warnings.emplace_back("parameters are neither gathered (stage 3) nor offloaded: --residency changes nothing");
  if (shard.delayUpdate && shard.offloadParam == Offload::nvme)
    warnings.emplace_back(
        "reading parameters from the file waits for what the update before reads: --delay-update hides little with "
        "--offload-param nvme");
  if (shard.isVertical() && shard.accumulation < 2)
    warnings.emplace_back("with one micro-step --micro-order changes nothing");
  return warnings;
}
