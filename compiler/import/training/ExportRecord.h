//===- ExportRecord.h - what an export says of the model it comes from ---------===//
#pragma once

#include "compiler/import/file/ModelFile.h"

namespace zc::importer {

/// Reads what no ONNX operator says from the file's metadata_props, where python/zero_compile writes it as JSON
/// (docs/own-model.md): "zero.padding_idx", {embedding: row or null}, comes before what `options` say of padding;
/// "zero.batch_norm" "train" holds where they say nothing. Other keys are passed over. Errors: badInput (another form).
Status adoptExportRecord(const ModelFile &file, ImportOptions &options);

} // namespace zc::importer
