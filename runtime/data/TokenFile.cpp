#include "runtime/data/TokenFile.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/Npy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace zc::data {

namespace {

Error badTokens(const std::string &path, const std::string &why, const std::string &help = {}) {
  return makeError(Code::badInput, 880, "not a usable token file: " + why, path, help);
}

struct RawType {
  const char *name;
  int width;
  bool isSigned;
};
// From wide to narrow: numbers that fit a wide type would fit a narrow one too, beside zeros.
constexpr RawType kRawTypes[] = {{"int64", 8, true}, {"uint32", 4, false}, {"int32", 4, true}, {"uint16", 2, false}};

const RawType *rawType(const std::string &name) {
  for (const RawType &type : kRawTypes)
    if (name == type.name)
      return &type;
  return nullptr;
}

Integers allOf(io::File file, int64_t offset, int width, bool isSigned, int64_t row = 0) {
  auto shared = std::make_shared<io::File>(std::move(file));
  int64_t count = (shared->size() - offset) / width;
  return {std::move(shared), offset, count, width, isSigned, row};
}

struct LlmC {
  int32_t magic, version;
  int width;
};
constexpr LlmC kLlmC[] = {{20240520, 1, 2}, {20240801, 7, 4}};

const LlmC *llmC(const io::File &file) {
  int32_t magic = 0;
  if (file.size() < int64_t(sizeof magic) || !file.readAt(&magic, sizeof magic, 0).ok())
    return nullptr;
  for (const LlmC &format : kLlmC)
    if (format.magic == magic)
      return &format;
  return nullptr;
}

Result<Integers> openLlmC(io::File file, const LlmC &format) {
  const std::string path = file.path();
  int32_t header[256] = {};
  if (file.size() < int64_t(sizeof header))
    return badTokens(path, "it has only " + std::to_string(file.size()) + " bytes");
  ZC_RETURN_IF_ERROR(file.readAt(header, sizeof header, 0));
  if (header[1] != format.version)
    return badTokens(path, "version " + std::to_string(header[1]) + " is not known");
  int64_t count = header[2];
  if (count == -1)
    std::memcpy(&count, header + 4, sizeof count);
  int64_t bytes = file.size() - int64_t(sizeof header);
  if (count < 0 || count > bytes || bytes != count * format.width)
    return badTokens(path, "the header counts " + std::to_string(count) + " tokens of " + std::to_string(format.width) +
                               " bytes, but " + std::to_string(bytes) + " bytes follow it");
  return allOf(std::move(file), sizeof header, format.width, false);
}

Result<Integers> openNpy(io::File file) {
  const std::string path = file.path();
  auto npy = io::NpyFile::read(std::move(file));
  if (!npy)
    return npy.error();
  if ((npy->kind != 'i' && npy->kind != 'u') || npy->dims.empty() || npy->dims.size() > 2)
    return badTokens(path, "it must be integers in one or two dimensions, and is " +
                               std::string(npy->dtype ? nameOf(*npy->dtype) : "?") + " in " +
                               std::to_string(npy->dims.size()));
  return allOf(std::move(npy->file), npy->offset, int(npy->elementBytes), npy->kind == 'i',
               npy->dims.size() == 2 ? npy->dims[1] : 0);
}

/// The type of which the file's first tokens are all in the vocabulary; null where none fits.
const RawType *likelyType(const io::File &file, int64_t vocabulary) {
  char head[1 << 14];
  int64_t bytes = std::min<int64_t>(file.size(), sizeof head) / 8 * 8;
  if (bytes == 0 || !file.readAt(head, bytes, 0).ok())
    return nullptr;
  if (std::all_of(head, head + bytes, [](unsigned char c) { return c >= 9 && c < 127; })) // text
    return nullptr;
  for (const RawType &type : kRawTypes) {
    bool fits = file.size() % type.width == 0;
    for (int64_t at = 0; fits && at < bytes; at += type.width) {
      uint64_t value = 0;
      std::memcpy(&value, head + at, size_t(type.width));
      fits = value < uint64_t(vocabulary > 0 ? vocabulary : 1 << 18);
    }
    if (fits)
      return &type;
  }
  return nullptr;
}

/// A file without a header that is known, and nothing that tells its type.
Error unknownKind(const io::File &file, const TokenFileOptions &options) {
  const std::string &path = file.path();
  const char *bytes = "--byte-level reads any file as bytes; zero tokens makes tokens of text";
  if (const FileKind kind = io::kindOf(file); kind != FileKind::unknown)
    return makeError(Code::usage, 881, "\"" + path + "\" is " + describe(kind) + ", not a file of tokens", "--tokens",
                     bytes);
  bool isBin = std::filesystem::path(path).extension() == ".bin";
  if (!isBin)
    return makeError(Code::usage, 893, "\"" + path + "\" has neither llm.c's header nor that of .npy", "--tokens",
                     std::string(bytes) + "; --token-type reads raw integers");
  if (file.size() < 4)
    return badTokens(path, "it has only " + std::to_string(file.size()) + " bytes");
  int32_t magic = 0;
  (void)file.readAt(&magic, sizeof magic, 0);
  const RawType *likely = likelyType(file, options.vocabulary);
  return badTokens(path, "it begins with magic " + std::to_string(magic) + " instead of llm.c's 20240520",
                   !likely
                       ? "raw tokens need --token-type uint16|uint32|int32|int64; --byte-level reads any file as bytes"
                       : std::string("it looks like raw ") + likely->name +
                             (likely->width == 2 ? ", as nanoGPT writes them" : "") + ": --token-type " + likely->name);
}

/// A header that says its type, though another was told.
Error otherType(const std::string &path, const Integers &found, const std::string &told) {
  return makeError(Code::mismatch, 885,
                   "its header says " + std::string(found.isSigned ? "int" : "uint") + std::to_string(8 * found.width) +
                       " but --token-type " + told,
                   path, "--token-type is for files without a header");
}

} // namespace

Result<TokenPath> parseTokenPath(const std::string &text) {
  size_t colon = text.rfind(':');
  std::error_code failure;
  if (colon == std::string::npos || colon + 1 == text.size() || std::filesystem::exists(text, failure))
    return TokenPath{text, std::nullopt};
  char *end = nullptr;
  double weight = std::strtod(text.c_str() + colon + 1, &end);
  if (*end != '\0')
    return TokenPath{text, std::nullopt};
  if (!(weight > 0 && weight <= 1e6))
    return makeError(Code::usage, 889, "weight " + text.substr(colon + 1, 40) + " is not above 0 and up to 1000000",
                     "--tokens " + text);
  return TokenPath{text.substr(0, colon), weight};
}

Result<Integers> openTokenFile(const std::string &path, const TokenFileOptions &options) {
  auto file = io::File::open(path);
  if (!file)
    return file.error();
  if (options.byteLevel)
    return allOf(std::move(*file), 0, 1, false);
  const RawType *raw = rawType(options.type);
  const LlmC *format = llmC(*file);
  if (format || io::kindOf(*file) == FileKind::npy) {
    auto found = format ? openLlmC(std::move(*file), *format) : openNpy(std::move(*file));
    if (found && raw && (raw->width != found->width || raw->isSigned != found->isSigned))
      return otherType(path, *found, options.type);
    return found;
  }
  if (!raw)
    return unknownKind(*file, options);
  if (file->size() % raw->width != 0)
    return badTokens(path, std::to_string(file->size()) + " bytes are no whole number of " + options.type);
  return allOf(std::move(*file), 0, raw->width, raw->isSigned);
}

} // namespace zc::data
