//===- ExternalData.cpp - tensors whose bytes lie beside the model -------------===//
#include "compiler/import/ExternalData.h"
#include "compiler/import/Errors.h"

#include <charconv>
#include <map>
#include <sys/stat.h>

using namespace zc;
using namespace zc::importer;

Result<FileReader> zc::importer::openExternal(const std::string &folder, const std::string &relative,
                                              const std::string &where) {
  auto refuse = [&](const std::string &problem) {
    return badFile(badExternal, "external data location '" + relative.substr(0, 200) + "': " + problem, where,
                   "external data must lie in the model's folder");
  };
  auto file = io::File::openBeneath(folder, relative);
  if (!file.ok())
    return refuse(file.error().message);
  // A second name could be a file elsewhere that the model's author may not read himself.
  struct stat info;
  if (stat(file->path().c_str(), &info) != 0 || info.st_nlink != 1)
    return refuse("the file has other names (hard links)");
  return FileReader(std::move(*file));
}

static bool parseNumber(const std::string &text, int64_t &value) {
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && value >= 0;
}

Result<ExternalRange> zc::importer::resolveExternal(const ModelFile &model, const onnxpb::Tensor &tensor,
                                                    int64_t neededBytes, const std::string &where) {
  std::map<std::string, std::string> entries;
  for (const onnxpb::StringStringEntry &entry : tensor.external_data()) {
    static const char *const known[] = {"location", "offset", "length", "checksum", "basepath"};
    if (std::find(std::begin(known), std::end(known), entry.key()) == std::end(known))
      return badFile(badExternal, "external data has unknown key '" + entry.key() + "'", where);
    if (!entries.emplace(entry.key(), entry.value()).second)
      return badFile(badExternal, "external data has key '" + entry.key() + "' twice", where);
  }
  ExternalRange range;
  range.file = entries["location"];
  range.bytes = neededBytes;
  if (entries.count("offset") && !parseNumber(entries["offset"], range.offset))
    return badFile(badExternal, "external data offset '" + entries["offset"] + "' is not a number >= 0", where);
  if (entries.count("length") && !parseNumber(entries["length"], range.bytes))
    return badFile(badExternal, "external data length '" + entries["length"] + "' is not a number >= 0", where);
  if (range.bytes != neededBytes)
    return badFile(badExternal,
                   "external data has length " + std::to_string(range.bytes) + ", but the shape needs " +
                       std::to_string(neededBytes) + " bytes",
                   where);
  auto file = openExternal(model.folder, range.file, where);
  if (!file.ok())
    return file.error();
  int64_t size = static_cast<int64_t>(file->size());
  if (range.bytes > size || range.offset > size - range.bytes)
    return badFile(badExternal,
                   "external data needs bytes " + std::to_string(range.offset) + " to " +
                       std::to_string(static_cast<uint64_t>(range.offset) + static_cast<uint64_t>(range.bytes)) +
                       " of '" + range.file + "', which has " + std::to_string(size),
                   where);
  return range;
}
