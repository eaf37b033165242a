//===- ExternalData.h - tensors whose bytes lie beside the model ---------------===//
#pragma once

#include "compiler/import/file/ModelFile.h"

namespace zc::importer {

/// Where an external tensor's bytes lie: a regular file beneath the model's folder, reached without symbolic links.
struct ExternalRange {
  std::string file; ///< relative to the model's folder
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Checks the entries of `tensor.external_data` against the file system: location, offset, length. `neededBytes` is
/// what the shape says; a length that is not given is taken to be that. `where` names the tensor in messages.
Result<ExternalRange> resolveExternal(const ModelFile &model, const onnxpb::Tensor &tensor, int64_t neededBytes,
                                      const std::string &where);

/// Opens `relative` beneath the model's folder: no absolute path, no "..", no symbolic link in any component, a regular
/// file with one name, or as many as --limit hard-links=N takes.
Result<FileReader> openExternal(const ModelFile &model, const std::string &relative, const std::string &where);

} // namespace zc::importer
