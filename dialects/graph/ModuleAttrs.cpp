//===- ModuleAttrs.cpp - attributes of modules as values, and back -----------------------===//
#include "dialects/graph/ModuleAttrs.h"

using namespace mlir;

namespace zc::graph {

static double numberOf(FloatAttr attr) { return attr ? attr.getValueAsDouble() : 0; }
static std::string textOf(StringAttr attr) { return attr ? attr.str() : std::string(); }
static UnitAttr flag(Builder &builder, bool set) { return set ? builder.getUnitAttr() : UnitAttr(); }

//===-- graph.model ----------------------------------------------------------===//

Model modelOf(ModuleOp module) {
  Model model;
  auto attr = module->getAttrOfType<ModelAttr>(ModelAttr::name);
  if (!attr)
    return model;
  model.path = textOf(attr.getPath());
  model.name = textOf(attr.getName());
  model.bytes = attr.getBytes();
  model.hash = attr.getHash();
  if (ArrayAttr files = attr.getExternal())
    for (mlir::Attribute entry : files)
      if (auto file = dyn_cast<FileAttr>(entry))
        model.external.push_back({textOf(file.getName()), file.getBytes(), file.getHash()});
  return model;
}

void setModel(ModuleOp module, const Model &model) {
  Builder builder(module.getContext());
  SmallVector<mlir::Attribute> files;
  for (const Model::File &file : model.external)
    files.push_back(FileAttr::get(builder.getContext(), builder.getStringAttr(file.name), file.bytes, file.hash));
  module->setAttr(ModelAttr::name,
                  ModelAttr::get(builder.getContext(), builder.getStringAttr(model.path),
                                 model.name.empty() ? StringAttr() : builder.getStringAttr(model.name), model.bytes,
                                 model.hash, files.empty() ? ArrayAttr() : builder.getArrayAttr(files)));
}

//===-- graph.target ---------------------------------------------------------===//

static constexpr StringLiteral kTarget = "graph.target";

static std::optional<Target> targetNamed(mlir::Attribute attribute) {
  auto name = dyn_cast_or_null<StringAttr>(attribute);
  return name ? valueNamed<Target>(name.getValue()) : std::nullopt;
}

Target targetOf(ModuleOp module) { return targetNamed(module->getAttr(kTarget)).value_or(Target::cpu); }

void setTarget(ModuleOp module, Target target) {
  if (target == Target::cpu)
    module->removeAttr(kTarget);
  else
    module->setAttr(kTarget, StringAttr::get(module.getContext(), nameOf(target)));
}

//===-- graph.model_ranks ----------------------------------------------------===//

static constexpr StringLiteral kModelRanks = "graph.model_ranks";

/// Of ranks.
static std::optional<int64_t> countOf(mlir::Attribute attribute) {
  auto ranks = dyn_cast_or_null<IntegerAttr>(attribute);
  return ranks && ranks.getType().isInteger(64) && ranks.getInt() >= 1 ? std::optional(ranks.getInt()) : std::nullopt;
}

int64_t modelRanksOf(ModuleOp module) { return countOf(module->getAttr(kModelRanks)).value_or(1); }

void setModelRanks(ModuleOp module, int64_t ranks) {
  module->setAttr(kModelRanks, Builder(module.getContext()).getI64IntegerAttr(ranks));
}

LogicalResult GraphDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  // module_c1
  if (attribute.getName() == kTarget && !targetNamed(attribute.getValue()))
    return op->emitError("[module_c1] 'graph.target' is neither \"cpu\" nor \"cuda\": ") << attribute.getValue();
  // module_c2
  if (attribute.getName() == kModelRanks && !countOf(attribute.getValue()))
    return op->emitError("[module_c2] 'graph.model_ranks' is no i64 of at least 1: ") << attribute.getValue();
  return success();
}

//===-- graph.training -------------------------------------------------------===//

static UpdateSettings valueOf(UpdateSettingsAttr attr) {
  UpdateSettings settings;
  auto read = [](FloatAttr from, auto &to) {
    if (from)
      to = from.getValueAsDouble();
  };
  settings.rule = attr.getRule();
  settings.lrSchedule = textOf(attr.getLrSchedule());
  read(attr.getLr(), settings.lr);
  read(attr.getBeta1(), settings.beta1);
  read(attr.getBeta2(), settings.beta2);
  read(attr.getEps(), settings.eps);
  read(attr.getMomentum(), settings.momentum);
  read(attr.getWeightDecay(), settings.weightDecay);
  read(attr.getMaxNorm(), settings.maxNorm);
  return settings;
}

static UpdateSettingsAttr attributeOf(Builder &builder, const UpdateSettings &settings) {
  auto number = [&](std::optional<double> value) { return value ? builder.getF64FloatAttr(*value) : FloatAttr(); };
  return UpdateSettingsAttr::get(builder.getContext(), settings.rule, number(settings.lr),
                                 settings.lrSchedule.empty() ? StringAttr()
                                                             : builder.getStringAttr(settings.lrSchedule),
                                 number(settings.beta1), number(settings.beta2), number(settings.eps),
                                 number(settings.momentum), number(settings.weightDecay), number(settings.maxNorm));
}

static LossScale valueOf(LossScaleAttr attr) {
  LossScale scale;
  scale.initial = numberOf(attr.getInitial());
  scale.minimum = numberOf(attr.getMinimum());
  scale.window = attr.getWindow();
  scale.hysteresis = attr.getHysteresis();
  scale.consecutive = bool(attr.getConsecutive());
  return scale;
}

static LossScaleAttr attributeOf(Builder &builder, const LossScale &scale) {
  return LossScaleAttr::get(builder.getContext(), builder.getF64FloatAttr(scale.initial),
                            builder.getF64FloatAttr(scale.minimum), scale.window, scale.hysteresis,
                            flag(builder, scale.consecutive));
}

Training trainingOf(ModuleOp module) {
  Training training;
  auto attr = module->getAttrOfType<TrainingAttr>(TrainingAttr::name);
  if (!attr)
    return training;
  training.precision = attr.getPrecision();
  training.matmulPrecision = attr.getTf32() ? MatmulPrecision::tf32 : MatmulPrecision::ieee;
  training.seed = attr.getSeed();
  training.forwardOnly = bool(attr.getForwardOnly());
  training.sumsGradients = bool(attr.getSumsGradients());
  training.weightedLoss = bool(attr.getWeightedLoss());
  training.epsUncorrected = bool(attr.getEpsUncorrected());
  if (attr.getOptimizer())
    training.optimizer = valueOf(attr.getOptimizer());
  if (attr.getLossScale())
    training.lossScale = valueOf(attr.getLossScale());
  return training;
}

void setTraining(ModuleOp module, const Training &training) {
  Builder builder(module.getContext());
  module->setAttr(
      TrainingAttr::name,
      TrainingAttr::get(builder.getContext(), training.precision,
                        flag(builder, training.matmulPrecision == MatmulPrecision::tf32), training.seed,
                        flag(builder, training.forwardOnly), flag(builder, training.sumsGradients),
                        flag(builder, training.weightedLoss), flag(builder, training.epsUncorrected),
                        training.optimizer ? attributeOf(builder, *training.optimizer) : UpdateSettingsAttr(),
                        training.lossScale ? attributeOf(builder, *training.lossScale) : LossScaleAttr()));
}

//===-- graph.outputs --------------------------------------------------------===//

std::optional<Outputs> outputsOf(ProgramOp program) {
  auto attr = program->getAttrOfType<OutputsAttr>(OutputsAttr::name);
  if (!attr)
    return std::nullopt;
  Outputs outputs;
  for (mlir::Attribute name : attr.getNames())
    outputs.names.push_back(isa<StringAttr>(name) ? cast<StringAttr>(name).str() : std::string());
  if (attr.getLoss() >= 0)
    outputs.loss = attr.getLoss();
  if (attr.getWeight() >= 0)
    outputs.weight = attr.getWeight();
  outputs.likelihood = bool(attr.getLikelihood());
  outputs.byLabels = bool(attr.getByLabels());
  return outputs;
}

void setOutputs(ProgramOp program, const std::optional<Outputs> &outputs) {
  if (!outputs) {
    program->removeAttr(OutputsAttr::name);
    return;
  }
  Builder builder(program.getContext());
  SmallVector<mlir::Attribute> names;
  for (const std::string &name : outputs->names)
    names.push_back(builder.getStringAttr(name));
  program->setAttr(OutputsAttr::name,
                   OutputsAttr::get(builder.getContext(), builder.getArrayAttr(names), outputs->loss.value_or(-1),
                                    outputs->weight.value_or(-1), flag(builder, outputs->likelihood),
                                    flag(builder, outputs->byLabels)));
}

} // namespace zc::graph
