#include "compiler/import/training/ExportRecord.h"
#include "compiler/import/base/Errors.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

using namespace zc;
using namespace zc::importer;

static Status adoptPadding(const ModelFile &file, const llvm::json::Object &rows, ImportOptions &options) {
  llvm::StringSet<> initializers;
  for (const auto &initializer : file.graph().initializer())
    initializers.insert(initializer.name());
  std::vector<std::pair<std::string, std::optional<int64_t>>> padding;
  for (const auto &[name, row] : rows) {
    std::optional<int64_t> index = row.getAsInteger();
    if (!index && row.kind() != llvm::json::Value::Null)
      return badFile(badAttribute, "row of '" + name.str() + "' is neither an integer nor null",
                     "metadata zero.padding_idx");
    if (initializers.contains(llvm::StringRef(name)))
      padding.emplace_back(name.str(), index);
  }
  options.paddingIndices.insert(options.paddingIndices.begin(), padding.begin(), padding.end());
  return {};
}

Status zc::importer::adoptExportRecord(const ModelFile &file, ImportOptions &options) {
  for (const onnxpb::StringStringEntry &entry : file.model.metadata_props()) {
    bool isPadding = entry.key() == "zero.padding_idx", isBatchNorm = entry.key() == "zero.batch_norm";
    if (!isPadding && !isBatchNorm)
      continue;
    auto value = llvm::json::parse(entry.value());
    if (!value)
      return badFile(badAttribute, "is no JSON: " + llvm::toString(value.takeError()), "metadata " + entry.key());
    if (const llvm::json::Object *rows = isPadding ? value->getAsObject() : nullptr)
      ZC_RETURN_IF_ERROR(adoptPadding(file, *rows, options));
    else if (isPadding)
      return badFile(badAttribute, "is no object of rows by name", "metadata " + entry.key());
    if (isBatchNorm && value->getAsString() == "train" && !options.forwardOnly &&
        options.batchNorm == BatchNormPolicy::asExported)
      options.batchNorm = BatchNormPolicy::train;
  }
  return {};
}
