//===- Padding.h - rows of embeddings that get no gradient --------------===//
#pragma once

#include "compiler/import/parameters/Origins.h"
#include "compiler/import/parameters/Ties.h"

namespace zc::importer {

/// torch's padding_idx of every embedding.
class Padding {
public:
  Padding(ModelFile &file, const ImportOptions &options, const InitializerMap &initializers, const Origins &origins)
      : file(file), options(options), initializers(initializers), origins(origins) {}
  /// --padding-idx. Errors: usage (no glob, no match).
  Status resolve();
  /// What --padding-idx says, or `traced`, the exporter's word, or the one row of zeros that a fresh padding_idx leaves
  /// (told in a warning at `loc`).
  std::optional<int64_t> of(const std::string &name, std::optional<int64_t> traced, mlir::Location loc);

private:
  std::optional<int64_t> find(const std::string &name, mlir::Location loc) const;

  ModelFile &file;
  const ImportOptions &options;
  const InitializerMap &initializers;
  const Origins &origins;
  llvm::StringMap<std::optional<int64_t>> rows; ///< of --padding-idx, or found
};

} // namespace zc::importer
