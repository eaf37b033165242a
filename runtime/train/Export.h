//===- Export.h - trained weights as ONNX or safetensors ----------------------------------===//
#pragma once

#include "runtime/io/Outputs.h"
#include "runtime/train/Resume.h"

#include <functional>

namespace zc::train {

/// Writes the model the plan was compiled from with the checkpoint's values in place of the trainable parameters'
/// bytes: same graph, same names, same element types. External data files that hold parameters are written beside
/// `path` under the names the model calls them by; in the original's own folder under `path`.data (several: .data.1,
/// ...), by which the new model then calls them. `model` overrides where the original is. Errors: mismatch (the model
/// has changed), unsupported (a trained parameter whose bytes are not in a file), usage (the original would be
/// overwritten), io.
Status exportOnnx(const OpenCheckpoint &checkpoint, const std::string &path, const std::string &model = {});

/// The checkpoint's weights under the names and in the layout that the model's own state has, as far as its file says
/// (ModelNames.h): transposed copies turned back, shared parameters under each of their names, frozen ones from the
/// model, no tables of the exporter. What it does not say, and a model that is not there any more, is told to `warn`;
/// the graph's names are then kept. A tensor that is turned passes through memory whole. Errors: corrupt, usage, io.
Status exportSafetensors(OpenCheckpoint checkpoint, const std::string &path, const std::string &model,
                         const std::function<void(const std::string &)> &warn);
/// All files of a checkpoint, which no output may replace.
std::vector<NamedPath> filesOf(const Manifest &manifest);

} // namespace zc::train
