//===- ExternalData.cpp - tensors whose bytes lie beside the model -------------===//
#include "compiler/import/file/ExternalData.h"
#include "compiler/import/base/Errors.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SHA1.h"

#include <charconv>
#include <map>

using namespace zc;
using namespace zc::importer;

/// Caches of models have folders of links into another one, where files have other names.
static std::string helpOnFolder(const ModelFile &model) {
  const std::string copy = "cp -rL makes a copy of a folder of links, as caches of models have them";
  if (llvm::sys::fs::is_symlink_file(model.path))
    return "the model is a link into \"" + model.folder + "\", whose files count: " + copy;
  return "external data must be files in the model's folder: " + copy;
}

Result<FileReader> zc::importer::openExternal(const ModelFile &model, const std::string &relative,
                                              const std::string &where) {
  auto refuse = [&](const std::string &problem, const std::string &help) {
    return badFile(badExternal, "external data location '" + relative.substr(0, 200) + "': " + problem, where, help);
  };
  if (!isValidUtf8(relative))
    return refuse("is not UTF-8", "external data must lie in the model's folder");
  auto file = io::File::openBeneath(model.folder, relative);
  if (!file.ok())
    return refuse(file.error().message, helpOnFolder(model));
  // A second name could be a file elsewhere that the model's author may not read himself.
  if (file->hardLinks() > model.mostLinks)
    return refuse("the file has " + std::to_string(file->hardLinks()) + " names (hard links), at most " +
                      std::to_string(model.mostLinks) + " are allowed",
                  "if nobody else could link it, --limit hard-links=" + std::to_string(file->hardLinks()) +
                      " takes it; or copy it");
  return FileReader(std::move(*file));
}

static bool parseNumber(const std::string &text, int64_t &value) {
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && value >= 0;
}

/// The SHA-1 of the whole file, read once however many tensors state it.
static Status verifyChecksum(const ModelFile &model, FileReader &file, const std::string &name,
                             const std::string &expected, const std::string &where) {
  std::string &found = model.checksums[name];
  if (found.empty()) {
    llvm::SHA1 sha;
    std::vector<uint8_t> buffer(1 << 20);
    for (uint64_t at = 0; at < file.size(); at += buffer.size()) {
      uint64_t count = std::min<uint64_t>(buffer.size(), file.size() - at);
      if (!file.read(at, buffer.data(), count))
        return makeError(Code::io, readFailed, "cannot read '" + name + "'", where);
      sha.update(llvm::ArrayRef<uint8_t>(buffer.data(), count));
    }
    found = llvm::toHex(sha.final(), /*LowerCase=*/true);
  }
  if (llvm::StringRef(expected).equals_insensitive(found))
    return {};
  return badFile(badExternal,
                 "external data has checksum '" + expected.substr(0, 100) + "', but '" + name + "' has " + found, where,
                 "the file was changed or damaged after the export");
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
  auto file = openExternal(model, range.file, where);
  if (!file.ok())
    return file.error();
  int64_t size = static_cast<int64_t>(file->size());
  if (entries.count("checksum"))
    ZC_RETURN_IF_ERROR(verifyChecksum(model, *file, range.file, entries["checksum"], where));
  if (range.bytes > size || range.offset > size - range.bytes)
    return badFile(badExternal,
                   "external data needs bytes " + std::to_string(range.offset) + " to " +
                       std::to_string(static_cast<uint64_t>(range.offset) + static_cast<uint64_t>(range.bytes)) +
                       " of '" + range.file + "', which has " + std::to_string(size),
                   where);
  return range;
}
