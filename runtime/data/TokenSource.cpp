//===- TokenSource.cpp - language-model windows over a stream of tokens ----------===//
//
// The files are one stream; sample i is tokens [i*T, i*T+T), and with shifted labels one more. What each graph input
// gets follows from its name: input_ids, labels, attention_mask (ones), position_ids (0..T-1), token_type_ids (zeros).
//
//===----------------------------------------------------------------------===//
#include "runtime/data/InputSource.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/io/Hash.h"
#include "runtime/io/Npy.h"

#include <cstring>

namespace zc::data {

namespace {

/// Tokens of one file: `count` little-endian integers of `width` bytes at `offset`.
struct TokenFile {
  io::File file;
  int64_t offset = 0, count = 0;
  int width = 1;
  bool isSigned = false;
  int64_t first = 0; ///< position of its first token in the stream
};

Error badTokens(const std::string &path, const std::string &why) {
  return makeError(Code::badInput, 880, "not a usable token file: " + why, path);
}

/// llm.c: 256 int32 of header (magic, version, count), then u16 (version 1) or u32 (version 7) tokens.
Result<TokenFile> openLlmC(io::File file) {
  const std::string path = file.path();
  int32_t header[256] = {};
  if (file.size() < int64_t(sizeof header))
    return badTokens(path, "it has only " + std::to_string(file.size()) + " bytes");
  ZC_RETURN_IF_ERROR(file.readAt(header, sizeof header, 0));
  struct Format {
    int32_t magic, version;
    int width;
  };
  static constexpr Format kFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};
  for (const Format &format : kFormats) {
    if (header[0] != format.magic)
      continue;
    if (header[1] != format.version)
      return badTokens(path, "version " + std::to_string(header[1]) + " is not known");
    int64_t bytes = file.size() - int64_t(sizeof header);
    if (header[2] < 0 || bytes != int64_t(header[2]) * format.width)
      return badTokens(path, "the header counts " + std::to_string(header[2]) + " tokens of " +
                                 std::to_string(format.width) + " bytes, but " + std::to_string(bytes) +
                                 " bytes follow it");
    return TokenFile{std::move(file), sizeof header, header[2], format.width, false, 0};
  }
  Error error = badTokens(path, "magic " + std::to_string(header[0]) + " instead of 20240520");
  error.help = "--byte-level reads any file as bytes";
  return error;
}

Result<TokenFile> openNpy(io::File file) {
  const std::string path = file.path();
  auto npy = io::NpyFile::read(std::move(file));
  if (!npy)
    return npy.error();
  if ((npy->kind != 'i' && npy->kind != 'u') || npy->dims.size() != 1)
    return badTokens(path, "it must be one dimension of integers");
  int64_t count = npy->dims[0];
  return TokenFile{std::move(npy->file), npy->offset, count, int(npy->elementBytes), npy->kind == 'i', 0};
}

bool endsWith(const std::string &text, const char *suffix) {
  size_t length = std::strlen(suffix);
  return text.size() >= length && text.compare(text.size() - length, length, suffix) == 0;
}

Result<TokenFile> openTokenFile(const std::string &path, bool byteLevel) {
  auto file = io::File::open(path);
  if (!file)
    return file.error();
  if (byteLevel) {
    int64_t size = file->size();
    return TokenFile{std::move(*file), 0, size, 1, false, 0};
  }
  if (endsWith(path, ".npy"))
    return openNpy(std::move(*file));
  if (endsWith(path, ".bin"))
    return openLlmC(std::move(*file));
  return makeError(Code::usage, 881, "\"" + path + "\" is neither .bin nor .npy", "--tokens",
                   "--byte-level reads any file as bytes");
}

enum class Content { tokens, labels, ones, positions, zeros };
struct KnownInput {
  const char *name;
  Content content;
};
constexpr KnownInput kInputs[] = {{"input_ids", Content::tokens},
                                  {"labels", Content::labels},
                                  {"attention_mask", Content::ones},
                                  {"position_ids", Content::positions},
                                  {"token_type_ids", Content::zeros}};

class TokenSource : public InputSource {
public:
  explicit TokenSource(const BatchSpec &batch) : InputSource(batch) {}

  Status prepare(const DataOptions &options);
  Status load(size_t input, int64_t step, int64_t micro, int64_t dataRank, void *destination) const override;
  int64_t samples() const override { return order.samples(); }
  int64_t tokensPerSample() const override { return length; }
  Result<uint64_t> fingerprint() const override;

private:
  Status classify(const DataOptions &options);
  Status openFiles(const DataOptions &options);
  Status readRow(int64_t *row, int64_t first) const;
  Status readRaw(char *raw, int64_t first) const;
  Error tokenError(int64_t position, int64_t token) const;

  std::vector<Content> contents; ///< by graph input
  std::vector<TokenFile> files;
  int64_t length = 0; ///< T
  int64_t shift = 0;  ///< 1 when labels are the following tokens
  SampleOrder order{1, false, 0};
};

Status TokenSource::classify(const DataOptions &options) {
  for (const InputSpec &input : batch.inputs) {
    if (!input.used) {
      contents.push_back(Content::zeros);
      continue;
    }
    const KnownInput *found = nullptr;
    for (const KnownInput &known : kInputs)
      if (input.name == known.name)
        found = &known;
    if (!found)
      return makeError(Code::mismatch, 882, "tokens cannot fill graph input \"" + input.name + "\"", "--tokens",
                       "give all inputs with --data");
    if (input.type.dtype != DType::i64 || input.type.dims.size() != 2)
      return makeError(Code::mismatch, 883,
                       "graph input \"" + input.name +
                           "\" must be i64 with dimensions [batch, tokens] to be filled from "
                           "tokens; it is " +
                           std::string(nameOf(input.type.dtype)) + " with " + std::to_string(input.type.dims.size()) +
                           " dimensions",
                       "--tokens");
    if (length == 0)
      length = input.type.dims[1];
    if (input.type.dims[1] != length)
      return makeError(Code::mismatch, 884,
                       "graph input \"" + input.name + "\" has " + std::to_string(input.type.dims[1]) +
                           " tokens per sample but \"" + batch.inputs[0].name + "\" has " + std::to_string(length),
                       "--tokens");
    contents.push_back(found->content);
  }
  if (length == 0)
    return makeError(Code::mismatch, 888, "the plan has no input that tokens could fill", "--tokens");
  shift = options.shiftLabels ? 1 : 0;
  return Status::success();
}

Status TokenSource::openFiles(const DataOptions &options) {
  int64_t total = 0;
  for (const std::string &path : options.tokens) {
    auto file = openTokenFile(path, options.byteLevel);
    if (!file)
      return file.error();
    file->first = total;
    total += file->count;
    if (!files.empty() && (file->width != files[0].width || file->isSigned != files[0].isSigned))
      return makeError(Code::mismatch, 885,
                       "tokens of " + std::to_string(file->width) + " bytes cannot follow tokens of " +
                           std::to_string(files[0].width) + " bytes in \"" + options.tokens[0] + "\"",
                       path);
    files.push_back(std::move(*file));
  }
  int64_t windows = total > shift ? (total - shift) / length : 0;
  if (windows < batch.samplesPerStep())
    return makeError(Code::badInput, 886,
                     "one step needs " + std::to_string(batch.samplesPerStep() * length + shift) +
                         " tokens but there are " + std::to_string(total),
                     options.tokens[0]);
  order = SampleOrder(windows, options.shuffle, options.seed);
  return Status::success();
}

Status TokenSource::prepare(const DataOptions &options) {
  ZC_RETURN_IF_ERROR(classify(options));
  return openFiles(options);
}

Status TokenSource::readRaw(char *raw, int64_t first) const {
  int64_t wanted = length;
  for (const TokenFile &file : files) {
    int64_t at = first - file.first;
    if (at >= file.count)
      continue;
    int64_t count = std::min(wanted, file.count - at);
    ZC_RETURN_IF_ERROR(file.file.readAt(raw, count * file.width, file.offset + at * file.width));
    raw += count * file.width;
    first += count;
    wanted -= count;
    if (wanted == 0)
      break;
  }
  return Status::success();
}

Error TokenSource::tokenError(int64_t position, int64_t token) const {
  const TokenFile *at = &files[0];
  for (const TokenFile &file : files)
    if (file.first <= position && file.count > 0)
      at = &file;
  return makeError(
      Code::badInput, 887,
      "token " + std::to_string(token) + " at byte " + std::to_string(at->offset + (position - at->first) * at->width) +
          (token < 0 ? " is negative" : " is not below the vocabulary of " + std::to_string(batch.vocabulary)),
      at->file.path());
}

/// The raw tokens are read into the end of the row and widened towards its front: element i is written at or before the
/// place where raw element i+1 lies, so no second buffer is needed.
Status TokenSource::readRow(int64_t *row, int64_t first) const {
  int width = files[0].width;
  char *raw = reinterpret_cast<char *>(row) + length * (8 - width);
  ZC_RETURN_IF_ERROR(readRaw(raw, first));
  int64_t limit = batch.vocabulary > 0 ? batch.vocabulary : INT64_MAX;
  int unused = 64 - 8 * width;
  for (int64_t i = 0; i < length; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, raw + i * width, size_t(width));
    bool negative = files[0].isSigned && (bits << unused >> 63) != 0;
    row[i] = int64_t(bits);
    if (negative || row[i] < 0 || row[i] >= limit)
      return tokenError(first + i, negative ? int64_t(bits << unused) >> unused : row[i]);
  }
  return Status::success();
}

Result<uint64_t> TokenSource::fingerprint() const {
  io::Hasher hash;
  for (const TokenFile &file : files) {
    int64_t width = file.width;
    auto bytes = io::fingerprintOf(file.file, file.offset, file.count * width);
    if (!bytes)
      return bytes;
    hash.add(&width, sizeof width);
    hash.add(&*bytes, sizeof *bytes);
  }
  return hash.value();
}

Status TokenSource::load(size_t input, int64_t step, int64_t micro, int64_t dataRank, void *destination) const {
  auto *out = static_cast<int64_t *>(destination);
  int64_t rows = BatchSpec::rowsOf(batch.inputs[input]);
  int64_t position = positionOf(input, step, micro, dataRank);
  Content content = contents[input];
  for (int64_t b = 0; b < rows; ++b, out += length) {
    if (content == Content::tokens || content == Content::labels) {
      int64_t first = order.at(position + b) * length + (content == Content::labels ? shift : 0);
      ZC_RETURN_IF_ERROR(readRow(out, first));
      continue;
    }
    for (int64_t i = 0; i < length; ++i)
      out[i] = content == Content::ones ? 1 : content == Content::positions ? i : 0;
  }
  return Status::success();
}

} // namespace

Result<std::unique_ptr<InputSource>> openTokens(const DataOptions &options, const BatchSpec &batch) {
  auto source = std::make_unique<TokenSource>(batch);
  ZC_RETURN_IF_ERROR(source->prepare(options));
  return std::unique_ptr<InputSource>(std::move(source));
}

} // namespace zc::data
