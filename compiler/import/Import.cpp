//===- Import.cpp - an ONNX file becomes a graph module ------------------------===//
#include "compiler/import/Import.h"
#include "compiler/import/program/Importer.h"
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
    options.findPadding = false; // ONNX Runtime trains every row
    ZC_RETURN_IF_ERROR(adoptOrtTrainingModel(file, options.ortCheckpoint));
    return readOrtOptimizer(file, options.ortOptimizer, options.limits);
  }
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

std::vector<std::string> zc::importer::filesOf(ModuleOp module) {
  const std::string model = graph::modelOf(module).path;
  std::set<std::string> files = {model};
  for (auto parameter : module.getOps<graph::ParameterOp>())
    if (auto source = parameter.getSource())
      files.insert(io::folderOf(model) + "/" + source->getFile().str());
  return {files.begin(), files.end()};
}

std::string zc::importer::listParameters(ModuleOp module) {
  std::vector<std::array<std::string, 6>> rows{{"name", "dtype", "shape", "role", "tied to", "evidence"}};
  int64_t trained = 0, all = 0;
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    std::string shape, tied;
    for (int64_t d : type.getShape())
      shape += (shape.empty() ? "" : "x") + std::to_string(d);
    if (auto names = parameter.getTied())
      for (Attribute name : *names)
        tied += (tied.empty() ? "" : ",") + escapeName(cast<StringAttr>(name).str());
    auto dtype = dtypeOf(type.getElementType());
    rows.push_back({escapeName(parameter.getSymName().str()), dtype ? std::string(nameOf(*dtype)) : "?",
                    shape.empty() ? "scalar" : shape, graph::stringifyRole(parameter.getRole()).str(),
                    tied.empty() ? "-" : tied, escapeName(parameter.getEvidence().value_or("-").str())});
    all += type.getNumElements();
    trained += parameter.getRole() == graph::Role::trainable ? type.getNumElements() : 0;
  }
  std::array<size_t, 6> widths{};
  for (const auto &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto &row : rows) {
    for (size_t c = 0; c < row.size(); ++c)
      text += c + 1 < row.size() ? row[c] + std::string(widths[c] + 2 - row[c].size(), ' ') : row[c];
    text += '\n';
  }
  return text + std::to_string(trained) + " of " + std::to_string(all) + " elements are trained\n";
}
