//===- ExternalData.cpp - tensors whose bytes lie beside the model -------------===//
#include "compiler/import/ExternalData.h"
#include "compiler/import/Errors.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using namespace zc;
using namespace zc::importer;

namespace {

/// Closes on scope exit.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      close(fd);
  }
};

} // namespace

static Error badLocation(const std::string &location, const std::string &problem, const std::string &where) {
  return badFile(badExternal, "external data location '" + location + "' " + problem, where,
                 "external data must lie in the model's folder");
}

/// Opens one component after the other without following links: what openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
/// does, on kernels and sandboxes that have no openat2 as well. The components are checked to hold no "..".
Result<FileReader> zc::importer::openBeneath(const std::string &folder, const std::string &relative,
                                             const std::string &where) {
  llvm::StringRef location(relative);
  if (location.empty() || relative.size() > 4096 || location.contains('\0') || location.contains('\\') ||
      location.starts_with("/"))
    return badLocation(relative.substr(0, 200), "is not a relative path", where);
  llvm::SmallVector<llvm::StringRef> parts;
  location.split(parts, '/');
  for (llvm::StringRef part : parts)
    if (part.empty() || part == "." || part == "..")
      return badLocation(relative, "has an empty, '.' or '..' component", where);

  Descriptor at{open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  for (size_t i = 0; i < parts.size(); ++i) {
    bool last = i + 1 == parts.size();
    int flags = O_NOFOLLOW | O_CLOEXEC | (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    Descriptor next{openat(at.fd, parts[i].str().c_str(), flags)};
    if (next.fd < 0) {
      bool link = errno == ELOOP || errno == ENOTDIR;
      return badLocation(relative,
                         link ? "leads through a symbolic link or a file"
                              : std::string("cannot be opened: ") + std::strerror(errno),
                         where);
    }
    std::swap(at.fd, next.fd);
  }
  struct stat info;
  if (fstat(at.fd, &info) != 0 || !S_ISREG(info.st_mode))
    return badLocation(relative, "is not a regular file", where);
  if (info.st_nlink != 1)
    return badLocation(relative, "is a hard link of another file", where);
  return FileReader(std::exchange(at.fd, -1), info.st_size);
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
  auto file = openBeneath(model.folder, range.file, where);
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
