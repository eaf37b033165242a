//===- OrtArtifacts.h - training artifacts of ONNX Runtime --------------------===//
//
// onnxruntime.training.artifacts writes training_model.onnx (forward, loss and gradients; parameters are inputs, each
// gradient goes into an InPlaceAccumulatorV2), optimizer_model.onnx (one optimizer node) and checkpoint (FlatBuffers,
// "ODTC", the parameters' values). Read here as what they were made from: a forward graph with its parameters, which
// ones train, and a rule. The derivatives are this project's own, so that every stage and placement applies.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/file/ModelFile.h"
#include "kernels/UpdateSettings.h"

#include <optional>
#include <set>

namespace zc::importer {

/// The update that a model brings along.
struct OwnOptimizer {
  UpdateSettings settings;     ///< `lr` where the model fixes it
  bool epsUncorrected = false; ///< eps is added to sqrt(v), not to sqrt(v / (1 - beta2^t))
  bool sumsGradients = false;  ///< over micro-steps and ranks, instead of their mean

  OwnOptimizer() {
    settings.rule = UpdateRule::sgd;
    settings.momentum = 0; // of files that name none
  }
};

/// One tensor of a checkpoint: where its bytes lie.
struct CheckpointTensor {
  std::string name;
  std::vector<int64_t> dims;
  int32_t dataType = 0; ///< as onnx TensorProto
  uint64_t offset = 0, bytes = 0;
  bool trained = false;
};

/// Parameters of an "ODTC" file. Every offset is checked. Errors: badInput, unsupported (external data).
Result<std::vector<CheckpointTensor>> readOrtCheckpoint(const io::File &file);

/// Is this graph a training_model.onnx?
bool isOrtTrainingModel(const onnxpb::Graph &graph);

/// Turns the graph of `model` back into a forward graph whose parameters are initializers in the file `checkpoint` of
/// the model's folder, marked as exporters mark them. Errors: badInput (no checkpoint, a parameter that it lacks).
Status adoptOrtTrainingModel(ModelFile &model, const std::string &checkpoint);

/// The rule of the file `given` in the model's folder; else of optimizer_model.onnx, nothing if there is no such file.
/// Errors: unsupported; badInput (the file that was given is not there).
Result<std::optional<OwnOptimizer>> readOrtOptimizer(const ModelFile &model, const std::optional<std::string> &given,
                                                     const ImportLimits &limits);

} // namespace zc::importer
