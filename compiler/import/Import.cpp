//===- Import.cpp - an ONNX file becomes a graph module ------------------------===//
#include "compiler/import/Import.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/program/Importer.h"
#include "compiler/import/program/Inputs.h"
#include "compiler/import/training/ExportRecord.h"
#include "compiler/import/training/TrainingInfo.h"
#include "dialects/graph/ModuleAttrs.h"
#include "runtime/io/Folder.h"

#include <set>

using namespace zc;
using namespace zc::importer;
using namespace mlir;

/// Training that the file brings along: the graph becomes the forward one, the rule is returned.
static Result<std::optional<OwnOptimizer>> adopt(ModelFile &file, ImportOptions &options) {
  if (isOrtTrainingModel(file.graph())) {
    options.findPadding = false;  // ONNX Runtime trains every row
    options.findDetached = false; // and differentiates what stands there
    ZC_RETURN_IF_ERROR(adoptOrtTrainingModel(file, options.ortCheckpoint.value_or("checkpoint")));
    return readOrtOptimizer(file, options.ortOptimizer, options.limits);
  }
  if (options.ortCheckpoint || options.ortOptimizer)
    return makeError(Code::usage, notOrtModel, "the model is none of ONNX Runtime's training artifacts", file.path,
                     std::string(options.ortCheckpoint ? "--ort-checkpoint" : "--ort-optimizer") +
                         " is of training_model.onnx: leave it out");
  if (file.model.training_info_size() == 0 || options.forwardOnly || !options.lossOp.empty())
    return std::optional<OwnOptimizer>();
  std::string loss;
  auto own = adoptTrainingInfo(file, loss);
  if (!own.ok())
    return own.error();
  options.loss = options.loss.empty() ? loss : options.loss;
  return std::optional<OwnOptimizer>(std::move(*own));
}

/// The model's own rule, for whoever compiles to follow or not.
static void record(const OwnOptimizer &own, ModuleOp module) {
  graph::Training training = graph::trainingOf(module);
  training.optimizer = own.settings;
  training.epsUncorrected = own.epsUncorrected;
  training.sumsGradients = own.sumsGradients;
  graph::setTraining(module, training);
}

Result<OwningOpRef<ModuleOp>> zc::importer::importOnnx(MLIRContext &context, const std::string &path,
                                                       const ImportOptions &options) {
  auto file = openModel(path, options.limits);
  if (!file.ok())
    return file.error();
  ImportOptions adopted = options;
  ZC_RETURN_IF_ERROR(adoptExportRecord(**file, adopted));
  auto own = adopt(**file, adopted);
  if (!own.ok())
    return own.error();
  ZC_RETURN_IF_ERROR(validateModel(**file, options.limits));
  auto module = Importer(context, **file, adopted).run();
  if (module.ok() && *own)
    record(**own, **module);
  return module;
}

Result<std::optional<std::string>> zc::importer::openBatch(const std::string &path, const ImportOptions &options) {
  auto file = openModel(path, options.limits);
  if (!file.ok())
    return file.error();
  std::set<std::string> first;
  for (const onnxpb::ValueInfo &input : (*file)->graph().input()) {
    const auto &shape = input.type().tensor_type().shape();
    if (shape.dim_size() > 0 && !shape.dim(0).has_dim_value())
      first.insert(symbolOf(input, 0));
  }
  if (first.size() != 1 || options.dims.count(*first.begin()))
    return std::optional<std::string>();
  return std::optional(*first.begin());
}

std::vector<std::string> zc::importer::filesOf(ModuleOp module) {
  const std::string model = graph::modelOf(module).path;
  std::set<std::string> files = {model};
  for (auto parameter : module.getOps<graph::ParameterOp>())
    if (auto source = parameter.getSource())
      files.insert(io::folderOf(model) + "/" + source->getFile().str());
  return {files.begin(), files.end()};
}
