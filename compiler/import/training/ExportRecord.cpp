#include "compiler/import/training/ExportRecord.h"
#include "compiler/import/base/Errors.h"
#include "compiler/options/Json.h"

#include "llvm/ADT/StringSet.h"

using namespace zc;
using namespace zc::importer;

/// Of a row as JSON says it; null is no row. Errors: badInput.
static Status readRow(const std::string &name, const nlohmann::json &json, std::optional<int64_t> &row) {
  if (json.is_null())
    return {};
  if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX))
    return badFile(badAttribute, "row of '" + name + "' is neither an integer nor null", "metadata zero.padding_idx");
  row = json.get<int64_t>();
  return {};
}

static Status adoptPadding(const ModelFile &file, const nlohmann::json &rows, ImportOptions &options) {
  llvm::StringSet<> initializers;
  for (const auto &initializer : file.graph().initializer())
    initializers.insert(initializer.name());
  std::vector<std::pair<std::string, std::optional<int64_t>>> padding;
  for (const auto &[name, json] : rows.items()) {
    std::optional<int64_t> row;
    ZC_RETURN_IF_ERROR(readRow(name, json, row));
    if (initializers.contains(name))
      padding.emplace_back(name, row);
  }
  options.paddingIndices.insert(options.paddingIndices.begin(), padding.begin(), padding.end());
  return {};
}

Status zc::importer::adoptExportRecord(const ModelFile &file, ImportOptions &options) {
  for (const onnxpb::StringStringEntry &entry : file.model.metadata_props()) {
    bool isPadding = entry.key() == "zero.padding_idx", isBatchNorm = entry.key() == "zero.batch_norm";
    if (!isPadding && !isBatchNorm)
      continue;
    const std::string where = "metadata " + entry.key();
    Result<nlohmann::json> value = parseJson(entry.value());
    if (!value)
      return badFile(badAttribute, value.error().message, where, value.error().help);
    if (isPadding && !value->is_object())
      return badFile(badAttribute, "is no object of rows by name", where);
    if (isPadding)
      ZC_RETURN_IF_ERROR(adoptPadding(file, *value, options));
    else if (*value == "train" && !options.forwardOnly && options.batchNorm == BatchNormPolicy::asExported)
      options.batchNorm = BatchNormPolicy::train;
  }
  return {};
}
