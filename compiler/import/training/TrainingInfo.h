//===- TrainingInfo.h - models that bring their own training algorithm ---------===//
#pragma once

#include "compiler/import/training/OrtArtifacts.h"

namespace zc::importer {

/// Reads the model's TrainingInfoProto (ONNX IR 7): the loss, the trained initializers and their update rule, which
/// must be one that this project has: x - r g, or Adam or Momentum of ai.onnx.preview.training, of a Gradient. Marks
/// the initializers as exporters mark them and names the loss in `loss`. Initialization graphs are not run: the stored
/// values count. Errors: badInput (bindings that name nothing), unsupported (another algorithm).
Result<OwnOptimizer> adoptTrainingInfo(ModelFile &model, std::string &loss);

} // namespace zc::importer
