//===- Padding.cpp - rows of embeddings that get no gradient ------------===//
#include "compiler/import/parameters/Padding.h"

#include "llvm/Support/GlobPattern.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

Status Padding::resolve() {
  for (const auto &[pattern, row] : options.paddingIndices) {
    auto glob = llvm::GlobPattern::create(pattern, 1024);
    if (!glob)
      return badTieError("'" + pattern + "' is not a glob: " + llvm::toString(glob.takeError()), "--padding-idx");
    bool isUsed = false;
    for (const auto &initializer : initializers)
      if (glob->match(initializer.getKey())) {
        rows[initializer.getKey()] = row;
        isUsed = true;
      }
    if (!isUsed)
      return badTieError("no initializer matches '" + pattern + "'", "--padding-idx");
  }
  return {};
}

std::optional<int64_t> Padding::of(const std::string &name, std::optional<int64_t> traced, Location loc) {
  auto found = rows.find(name);
  if (found != rows.end())
    return found->second;
  if (traced)
    return traced;
  return rows[name] = find(name, loc);
}

/// A fresh padding_idx is the one row of zeros among rows that have values. Only files of torch's that say nothing of
/// their embeddings are looked at.
std::optional<int64_t> Padding::find(const std::string &name, Location loc) const {
  if (options.forwardOnly || !options.findPadding || file.model.producer_name() != "pytorch" || origins.hasTraces())
    return std::nullopt;
  auto info = inspectTensor(file, *initializers.lookup(name), options.limits, file.path);
  if (!info.ok())
    return std::nullopt; // said where the tensor is read
  llvm::StringMap<TensorInfo> infos;
  infos[name] = *info;
  std::optional<int64_t> row = ParameterBytes(file, infos).zeroRow(name);
  if (row) {
    std::string flag = "--padding-idx '" + name + "=";
    auto warning = emitWarning(loc) << "row " << *row << " of embedding '" << name
                                    << "' is all zeros, as a padding_idx leaves it: it gets no gradient, as in PyTorch";
    warning.attachNote() << "help: " << flag << *row << "' says that this is meant, " << flag << "none' trains the row";
  }
  return row;
}
