//===- Export.h - trained weights as ONNX or safetensors ----------------------------------===//
#pragma once

#include "runtime/train/Checkpoint.h"

namespace zc::train {

/// Writes the model the plan was compiled from with the checkpoint's values in place of the trainable parameters'
/// bytes: same graph, same names, same element types. External data files that hold parameters are written beside
/// `path` under the names the model calls them by. `model` overrides where the original is. Errors: mismatch (the model
/// has changed), unsupported (a trained parameter whose bytes are not in a file), usage (external data would overwrite
/// the original's), io.
Status exportOnnx(const Manifest &manifest, const std::string &path, const std::string &model = {});

/// The checkpoint's weights as one file.
Status exportSafetensors(const Manifest &manifest, const std::string &path);

} // namespace zc::train
