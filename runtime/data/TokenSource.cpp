//===- TokenSource.cpp - language-model windows over streams of tokens -----------===//
//
// All files are one stream, or, where any has a weight, each is one. Sample i of a stream is its tokens [i*T, i*T+T),
// and with shifted labels one more. An array of two dimensions is a stream too, of whose rows each is cut by itself:
// rows are documents, and what they have beyond the last whole sample is left out. An epoch has the windows of each
// stream weight times, rounded; in the next one it goes on where it was, so that a weight of 1/2 has other halves in
// turn. What each graph input gets follows from its name: input_ids, labels, attention_mask (ones), position_ids
// (0..T-1), token_type_ids (zeros).
//
//===----------------------------------------------------------------------===//
#include "base/Size.h"
#include "runtime/data/InputSource.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/data/TokenFile.h"
#include "runtime/io/Hash.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace zc::data {

namespace {

/// Windows over some files in turn, or over the rows of one.
struct Stream {
  std::vector<Integers> files;
  int64_t tokens = 0, windows = 0;
  int64_t row = 0, perRow = 0; ///< tokens and windows of a row; 0: there are no rows
  double weight = 1;
  int64_t share = 0;  ///< windows of an epoch
  int64_t before = 0; ///< those of the streams before it
};

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
  Status fill(size_t input, int64_t step, int64_t micro, int64_t dataRank, void *destination) const override;
  Result<bool> check(Patience patience) const override;
  LabelMaking labels() const override { return making; }
  std::string rows() const override;
  int64_t samples() const override { return order.samples(); }
  int64_t tokensPerSample() const override { return length; }
  Result<uint64_t> fingerprint() const override;

private:
  Status classify();
  Status checkInput(const InputSpec &input, const KnownInput *known);
  Status decideLabels(const DataOptions &options);
  Status openFiles(const DataOptions &options);
  Status openFile(const TokenPath &path, const TokenFileOptions &how, bool isStream);
  Status divide(const DataOptions &options);
  Status countWindows(Stream &stream) const;
  Status readWindow(int64_t position, int64_t shifted, int64_t *row) const;
  Error outside(const Integers &file, int64_t element, int64_t token) const;

  std::vector<Content> contents; ///< by graph input
  std::vector<Stream> streams;
  bool isWeighted = false;
  IndexRange range;   ///< of tokens, wherever they go
  int64_t length = 0; ///< T
  int64_t shift = 0;  ///< 1 when labels are the following tokens
  LabelMaking making;
  SampleOrder order{1, false, 0};
};

Status TokenSource::checkInput(const InputSpec &input, const KnownInput *known) {
  if (!known)
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
  return Status::success();
}

Status TokenSource::classify() {
  for (const InputSpec &input : batch.inputs) {
    contents.push_back(Content::zeros);
    if (!input.used)
      continue;
    auto known = std::find_if(std::begin(kInputs), std::end(kInputs),
                              [&](const KnownInput &each) { return input.name == each.name; });
    ZC_RETURN_IF_ERROR(checkInput(input, known == std::end(kInputs) ? nullptr : known));
    contents.back() = known->content;
    if (known->content == Content::tokens || known->content == Content::labels)
      range.meet(input.range);
  }
  range.isLabel = false; // the same numbers are both
  range.ignored.reset();
  range.lowest = 0;
  if (length == 0)
    return makeError(Code::mismatch, 888, "the plan has no input that tokens could fill", "--tokens");
  return Status::success();
}

/// Labels are compared with the token after the one that they are computed from, by the graph or by us, once.
Status TokenSource::decideLabels(const DataOptions &options) {
  shift = options.shiftLabels ? 1 : 0;
  auto labels = std::find(contents.begin(), contents.end(), Content::labels);
  if (labels == contents.end())
    return Status::success();
  const std::optional<int64_t> &own = batch.inputs[size_t(labels - contents.begin())].shift;
  if (shift && own && *own > 0)
    return makeError(Code::usage, 879,
                     "the graph shifts its labels itself: each would be compared with the token after next",
                     "--shift-labels", "leave --shift-labels out");
  if (shift)
    making.text = "labels are the tokens that follow";
  else if (own && *own > 0)
    making.text = "labels are the tokens, which the graph shifts";
  else if (own)
    making = {
        "labels are the tokens themselves, and the graph does not shift them: a model that sees a token learns to "
        "copy it; --shift-labels makes labels of the tokens that follow",
        true};
  else
    making.text = "labels are the tokens themselves; where the graph does not shift them, give --shift-labels";
  return Status::success();
}

Status TokenSource::openFile(const TokenPath &path, const TokenFileOptions &how, bool isStream) {
  auto file = openTokenFile(path.file, how);
  if (!file)
    return file.error();
  if (streams.empty() || isStream || file->row > 0 || streams.back().row > 0)
    streams.emplace_back();
  streams.back().tokens += file->count;
  streams.back().row = file->row;
  streams.back().weight = path.weight.value_or(1);
  streams.back().files.push_back(std::move(*file));
  return Status::success();
}

Status TokenSource::openFiles(const DataOptions &options) {
  std::vector<TokenPath> paths;
  for (const std::string &text : options.tokens) {
    auto path = parseTokenPath(text);
    if (!path)
      return path.error();
    isWeighted |= path->weight.has_value();
    paths.push_back(std::move(*path));
  }
  for (const TokenPath &path : paths)
    ZC_RETURN_IF_ERROR(openFile(path, {options.byteLevel, options.tokenType, range.limit}, isWeighted));
  return divide(options);
}

Status TokenSource::countWindows(Stream &stream) const {
  auto windowsOf = [&](int64_t tokens) { return tokens > shift ? (tokens - shift) / length : 0; };
  stream.perRow = windowsOf(stream.row);
  stream.windows = stream.row > 0 ? stream.tokens / stream.row * stream.perRow : windowsOf(stream.tokens);
  if (stream.row == 0 || stream.perRow > 0)
    return Status::success();
  return makeError(Code::badInput, 892,
                   "its rows have " + std::to_string(stream.row) + " tokens each, a sample needs " +
                       std::to_string(length + shift),
                   stream.files[0].file->path(),
                   "rows are cut by themselves; an array of one dimension, x.reshape(-1), is read as one stream");
}

/// Which windows an epoch has.
Status TokenSource::divide(const DataOptions &options) {
  int64_t all = 0, tokens = 0;
  for (Stream &stream : streams) {
    tokens += stream.tokens;
    ZC_RETURN_IF_ERROR(countWindows(stream));
    stream.before = all;
    stream.share = int64_t(std::llround(std::min(stream.weight * double(stream.windows), 0x1p40)));
    if (isWeighted && stream.share == 0) {
      char weight[32];
      std::snprintf(weight, sizeof weight, "%g", stream.weight);
      return makeError(Code::badInput, 894,
                       std::string("an epoch has ") + weight + " times its " + counted(stream.windows, "sample") +
                           ", which is none: it would never be read",
                       stream.files[0].file->path());
    }
    all += stream.share;
  }
  if (const int64_t least = options.isRepeated ? batch.samplesPerStep() : 1; all < least) {
    Error error =
        makeError(Code::badInput, 886,
                  (options.isRepeated ? "one step needs " : "one sample needs ") +
                      std::to_string(least * length + shift) + " tokens but there are " + std::to_string(tokens),
                  options.tokens[0]);
    if (isWeighted)
      error.note = "weights make " + std::to_string(all) + " windows of them, a step takes " + std::to_string(least);
    return error;
  }
  order = SampleOrder(all, options.shuffle, options.seed);
  return Status::success();
}

Status TokenSource::prepare(const DataOptions &options) {
  ZC_RETURN_IF_ERROR(classify());
  ZC_RETURN_IF_ERROR(decideLabels(options));
  return openFiles(options);
}

std::string TokenSource::rows() const {
  int64_t rows = 0, samples = 0, left = 0;
  for (const Stream &stream : streams)
    if (stream.row > 0) {
      rows += stream.tokens / stream.row;
      samples += stream.windows;
      left += stream.tokens - stream.windows * length;
    }
  return rows == 0 ? ""
                   : "rows of two-dimensional arrays are cut by themselves: " + std::to_string(rows) + " rows, " +
                         std::to_string(samples) + " samples of " + std::to_string(length) + " tokens, " +
                         std::to_string(left) + " tokens left out";
}

Error TokenSource::outside(const Integers &file, int64_t element, int64_t token) const {
  Error error = makeError(Code::badInput, 887,
                          "token " + std::to_string(token) + " at position " + std::to_string(element) + " (byte " +
                              std::to_string(file.byteOf(element)) + ") " + range.complaint(token),
                          file.file->path());
  if (token >= range.limit)
    error.help = "make the tokens with the model's tokenizer; of a file without a header, see --token-type";
  return error;
}

Result<bool> TokenSource::check(Patience patience) const {
  std::vector<const Integers *> doubtful;
  for (const Stream &stream : streams)
    for (const Integers &file : stream.files)
      if (range.isKnown() && (file.isSigned || file.largest() >= range.limit)) {
        doubtful.push_back(&file);
        patience.all += file.count * file.width;
      }
  for (const Integers *file : doubtful) {
    auto whole = scan(*file, patience, [&](int64_t first, const int64_t *values, int64_t n) {
      int64_t bad = range.firstOutside(values, n);
      return bad < 0 ? Status::success() : Status(outside(*file, first + bad, values[bad]));
    });
    if (!whole || !*whole)
      return whole;
  }
  return true;
}

/// The window of a position of the run, from its token `shifted` on.
Status TokenSource::readWindow(int64_t position, int64_t shifted, int64_t *row) const {
  int64_t sample = order.at(position), epoch = position / order.samples();
  auto stream = std::upper_bound(streams.begin(), streams.end(), sample,
                                 [](int64_t value, const Stream &each) { return value < each.before; }) -
                1;
  int64_t drawn = isWeighted ? epoch * (stream->share % stream->windows) : 0; // far below 2^63: 2^40 times epochs
  int64_t window = (sample - stream->before + drawn) % stream->windows, wanted = length;
  int64_t first = shifted + (stream->row > 0 ? window / stream->perRow * stream->row + window % stream->perRow * length
                                             : window * length);
  for (const Integers &file : stream->files) {
    int64_t count = std::min(wanted, file.count - first);
    if (count <= 0) {
      first -= file.count;
      continue;
    }
    ZC_RETURN_IF_ERROR(file.read(first, count, row));
    if (int64_t bad = range.isKnown() ? range.firstOutside(row, count) : -1; bad >= 0)
      return outside(file, first + bad, row[bad]);
    row += count;
    wanted -= count;
    first = 0;
    if (wanted == 0)
      break;
  }
  return Status::success();
}

Result<uint64_t> TokenSource::fingerprint() const {
  io::Hasher hash;
  for (const Stream &stream : streams) {
    if (isWeighted)
      hash.add(&stream.weight, sizeof stream.weight);
    if (stream.row > 0)
      hash.add(&stream.row, sizeof stream.row);
    for (const Integers &file : stream.files) {
      int64_t width = file.width;
      auto bytes = io::fingerprintOf(*file.file, file.offset, file.count * width);
      if (!bytes)
        return bytes;
      hash.add(&width, sizeof width);
      hash.add(&*bytes, sizeof *bytes);
    }
  }
  return hash.value();
}

Status TokenSource::fill(size_t input, int64_t step, int64_t micro, int64_t dataRank, void *destination) const {
  auto *out = static_cast<int64_t *>(destination);
  int64_t rows = BatchSpec::rowsOf(batch.inputs[input]);
  int64_t position = positionOf(input, step, micro, dataRank);
  Content content = contents[input];
  for (int64_t b = 0; b < rows; ++b, out += length) {
    if (content == Content::tokens || content == Content::labels) {
      ZC_RETURN_IF_ERROR(readWindow(position + b, content == Content::labels ? shift : 0, out));
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
