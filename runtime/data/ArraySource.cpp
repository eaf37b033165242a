//===- ArraySource.cpp - samples from safetensors and .npy arrays ---------------===//
#include "base/Failpoint.h"
#include "kernels/formula/Elements.h"
#include "runtime/data/InputSource.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/Hash.h"
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

namespace zc::data {

namespace {

/// One input's samples: `[samples, ...]` at `offset` of a file.
struct Array {
  std::shared_ptr<io::File> file;
  int64_t offset = 0;
  TensorType type;
  std::optional<Integers> integers; ///< where elements are read one by one: to be converted, or looked at
};

/// Arrays by name, in one safetensors file or a folder.
class Collection {
public:
  static Result<Collection> open(const std::string &path);
  Result<Array> get(const std::string &name) const;

private:
  Error missing(const std::string &name) const;

  std::string path;
  std::vector<std::string> names;
  std::optional<io::SafetensorsFile> table;
  std::shared_ptr<io::File> file;
};

/// What to do with such a file, which was given for arrays.
std::string insteadOfArrays(FileKind kind, const std::string &path) {
  switch (kind) {
  case FileKind::npy:
    return "--data takes the folder, with an INPUT.npy for each graph input";
  case FileKind::tokens:
    return "--tokens " + path;
  case FileKind::plan:
    return "the plan stands alone: zero-run " + path + " --data FILE";
  default:
    return "--data takes FILE.safetensors, or a folder of INPUT.npy";
  }
}

/// Another file was taken for data.
Error otherKind(const std::string &path, Error error) {
  const FileKind kind = io::kindOf(path);
  if (kind == FileKind::unknown || kind == FileKind::safetensors)
    return error;
  error = makeError(Code::badInput, 890, "\"" + path + "\" is " + describe(kind) + ", not data", "--data");
  error.help = insteadOfArrays(kind, path);
  return error;
}

Result<Collection> Collection::open(const std::string &path) {
  Collection result;
  result.path = path;
  std::error_code failure;
  if (!std::filesystem::is_directory(path, failure)) {
    auto table = io::SafetensorsFile::open(path);
    if (!table)
      return otherKind(path, table.error());
    for (const io::SafetensorsEntry &entry : table->entries())
      result.names.push_back(entry.name);
    result.table = std::move(*table);
    result.file = std::make_shared<io::File>(result.table->takeFile());
    return result;
  }
  std::filesystem::directory_iterator entries(path, failure), end;
  for (; !failure && entries != end; entries.increment(failure))
    if (entries->path().extension() == ".npy")
      result.names.push_back(entries->path().stem().string());
  if (failure)
    return io::errnoError(Code::badInput, 870, "cannot list folder", path, failure.value());
  std::sort(result.names.begin(), result.names.end());
  return result;
}

Error Collection::missing(const std::string &name) const {
  Error error = makeError(Code::badInput, 871, "no array for graph input \"" + name + "\"", path);
  std::string list;
  for (size_t i = 0; i < names.size() && i < 20; ++i)
    list += (i ? ", \"" : "\"") + names[i].substr(0, 100) + "\"";
  if (names.size() > 20)
    list += " and " + std::to_string(names.size() - 20) + " more";
  error.note = names.empty() ? "there are no arrays" : "there are " + list;
  return error;
}

Result<Array> Collection::get(const std::string &name) const {
  if (std::find(names.begin(), names.end(), name) == names.end())
    return missing(name);
  if (table) {
    const io::SafetensorsEntry *entry = table->find(name);
    return Array{file, entry->offset, entry->type, std::nullopt};
  }
  // The name is one of the folder's own (names), so that no graph leads elsewhere; where a link leads is the user's
  // matter.
  auto opened = io::File::open(path + "/" + name + ".npy");
  if (!opened)
    return opened.error();
  auto npy = io::NpyFile::read(std::move(*opened));
  if (!npy)
    return npy.error();
  if (!npy->dtype)
    return makeError(Code::unsupported, 872, "its element type is not supported", path + "/" + name + ".npy");
  return Array{std::make_shared<io::File>(std::move(npy->file)), npy->offset, {*npy->dtype, npy->dims}, std::nullopt};
}

std::string describe(const TensorType &type, bool samples) {
  std::string text;
  for (size_t i = 0; i < type.dims.size(); ++i)
    text += (i ? ", " : "") + (samples && i == 0 ? "samples" : std::to_string(type.dims[i]));
  return std::string(nameOf(type.dtype)) + "[" + text + "]";
}

bool isInteger(DType type) { return integersOf(nullptr, 0, {type, {}}).has_value(); }

/// The graph input's type with its rows replaced by "samples" is what the array must have; of integers, any width.
Status checkType(const InputSpec &input, const Array &array, const std::string &path) {
  TensorType wanted = input.type;
  if (wanted.dims.empty())
    wanted.dims.push_back(1);
  bool same = (array.type.dtype == wanted.dtype || (isInteger(array.type.dtype) && isInteger(wanted.dtype))) &&
              array.type.dims.size() == wanted.dims.size() &&
              std::equal(wanted.dims.begin() + 1, wanted.dims.end(), array.type.dims.begin() + 1);
  if (same)
    return Status::success();
  Error error = makeError(Code::mismatch, 873,
                          "the array for graph input \"" + input.name + "\" is " + describe(array.type, false) +
                              " but the plan needs " + describe(wanted, true),
                          path);
  error.note = "the plan was compiled for " + describe(input.type, false) + " per rank and micro-step";
  return error;
}

template <typename T> void put(const int64_t *values, int64_t n, char *to) {
  for (int64_t i = 0; i < n; ++i) {
    T value = T(values[i]);
    std::memcpy(to + i * int64_t(sizeof value), &value, sizeof value);
  }
}

/// An integer type of graph inputs.
struct Narrow {
  DType type;
  int64_t least, most;
  void (*put)(const int64_t *values, int64_t n, char *to);
};
template <typename T> constexpr Narrow narrow(DType type) {
  return {type, int64_t(std::numeric_limits<T>::min()), int64_t(std::numeric_limits<T>::max()), put<T>};
}
constexpr Narrow kNarrow[] = {narrow<int64_t>(DType::i64),
                              narrow<int32_t>(DType::i32),
                              narrow<int16_t>(DType::i16),
                              narrow<int8_t>(DType::i8),
                              narrow<uint8_t>(DType::u8),
                              {DType::boolean, 0, 1, put<uint8_t>},
                              narrow<uint16_t>(DType::u16),
                              narrow<uint32_t>(DType::u32),
                              {DType::u64, 0, std::numeric_limits<int64_t>::max(), put<uint64_t>}};

const Narrow *narrowOf(DType type) {
  auto found =
      std::find_if(std::begin(kNarrow), std::end(kNarrow), [&](const Narrow &each) { return each.type == type; });
  return found == std::end(kNarrow) ? nullptr : found;
}

class ArraySource : public InputSource {
public:
  /// `inBatches`: what `order` has in order are batches, not samples.
  ArraySource(SampleOrder order, bool inBatches, const BatchSpec &batch, std::string path)
      : InputSource(batch), order(order), inBatches(inBatches), path(std::move(path)) {}

  Status fill(size_t input, int64_t step, int64_t micro, int64_t dataRank, void *destination) const override {
    const Array &array = arrays[input];
    int64_t rows = BatchSpec::rowsOf(batch.inputs[input]);
    int64_t rowBytes = batch.inputs[input].type.numBytes() / rows;
    int64_t first = positionOf(input, step, micro, dataRank);
    for (int64_t row = 0; row < rows;) {
      int64_t sample = sampleAt(first + row, rows), run = 1;
      while (row + run < rows && sampleAt(first + row + run, rows) == sample + run)
        ++run;
      char *to = static_cast<char *>(destination) + row * rowBytes;
      ZC_RETURN_IF_ERROR(array.integers ? readIntegers(input, sample, run, to)
                                        : array.file->readAt(to, run * rowBytes, array.offset + sample * rowBytes));
      row += run;
    }
    return Status::success();
  }

  Result<bool> check(Patience patience) const override {
    for (const Array &array : arrays)
      patience.all += array.integers ? array.integers->count * array.integers->width : 0;
    for (size_t input = 0; input < arrays.size(); ++input) {
      if (!arrays[input].integers)
        continue;
      auto whole = scan(*arrays[input].integers, patience, [&](int64_t first, const int64_t *values, int64_t n) {
        return inspect(input, first, values, n);
      });
      if (!whole || !*whole)
        return whole;
    }
    return true;
  }
  int64_t samples() const override { return order.samples() * (inBatches ? batch.rows() : 1); }

  Result<uint64_t> fingerprint() const override {
    io::Hasher hash;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (!arrays[i].file)
        continue;
      hash.add(batch.inputs[i].name.data(), int64_t(batch.inputs[i].name.size()));
      auto bytes = io::fingerprintOf(*arrays[i].file, arrays[i].offset, arrays[i].type.numBytes());
      if (!bytes)
        return bytes;
      hash.add(&*bytes, sizeof *bytes);
    }
    return hash.value();
  }

  Result<std::string> notFinite(int64_t step) const override;

  std::vector<Array> arrays; ///< by graph input

private:
  /// The sample at a position, of an input of `rows` a batch.
  int64_t sampleAt(int64_t position, int64_t rows) const {
    return inBatches ? order.at(position / rows) * rows + position % rows : order.at(position);
  }
  Status readIntegers(size_t input, int64_t sample, int64_t rows, char *to) const;
  Status inspect(size_t input, int64_t first, const int64_t *values, int64_t n) const;

  SampleOrder order;
  bool inBatches;
  std::string path;
};

Status ArraySource::readIntegers(size_t input, int64_t sample, int64_t rows, char *to) const {
  const TensorType &type = batch.inputs[input].type;
  const Narrow &narrow = *narrowOf(type.dtype);
  const Integers &from = *arrays[input].integers;
  const int64_t perRow = type.numElements() / BatchSpec::rowsOf(batch.inputs[input]);
  int64_t values[1024];
  for (int64_t at = sample * perRow, end = (sample + rows) * perRow; at < end;) {
    int64_t n = std::min<int64_t>(std::size(values), end - at);
    ZC_RETURN_IF_ERROR(from.read(at, n, values));
    ZC_RETURN_IF_ERROR(inspect(input, at, values, n));
    narrow.put(values, n, to);
    to += n * sizeOf(type.dtype);
    at += n;
  }
  return Status::success();
}

/// Whether elements from `first` of the array on are in the input's type and range.
Status ArraySource::inspect(size_t input, int64_t first, const int64_t *values, int64_t n) const {
  const InputSpec &spec = batch.inputs[input];
  const Narrow &narrow = *narrowOf(spec.type.dtype);
  const bool isChecked = spec.range.isKnown() && !failpoint("data.range"); // a test wants it found where it is used
  int64_t bad = isChecked ? spec.range.firstOutside(values, n) : -1;
  std::string complaint = bad < 0 ? "" : spec.range.complaint(values[bad]);
  for (int64_t i = 0; bad < 0 && i < n; ++i)
    if (values[i] < narrow.least || values[i] > narrow.most) {
      bad = i;
      complaint = "does not fit the plan's " + std::string(nameOf(narrow.type));
    }
  if (bad < 0)
    return Status::success();
  int64_t perRow = spec.type.numElements() / BatchSpec::rowsOf(spec), place = first + bad;
  Error error = makeError(Code::badInput, 891,
                          std::string(spec.range.isLabel ? "label " : "index ") + std::to_string(values[bad]) +
                              " of sample " + std::to_string(place / perRow) + ", position " +
                              std::to_string(place % perRow) + ", of \"" + spec.name + "\" " + complaint,
                          path);
  if (spec.range.isLabel && spec.range.ignored)
    error.note = "labels of " + std::to_string(*spec.range.ignored) + " do not count";
  return error;
}

/// The first element that is NaN or infinite, but for minus infinity, which masks have; nothing where none is.
template <typename T> std::optional<int64_t> firstNotFinite(const std::vector<char> &bytes) {
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof value], sizeof value);
    if (!(static_cast<double>(formula::load(value)) <= std::numeric_limits<double>::max()))
      return int64_t(i);
  }
  return std::nullopt;
}

std::optional<int64_t> firstNotFinite(DType type, const std::vector<char> &bytes) {
  switch (type) {
  case DType::f32:
    return firstNotFinite<float>(bytes);
  case DType::f64:
    return firstNotFinite<double>(bytes);
  case DType::bf16:
    return firstNotFinite<formula::Bf16>(bytes);
  case DType::f16:
    return firstNotFinite<formula::F16>(bytes);
  default:
    return std::nullopt;
  }
}

Result<std::string> ArraySource::notFinite(int64_t step) const {
  std::vector<char> bytes;
  for (int64_t turn = 0; turn < batch.accumulation * batch.dataDegree; ++turn)
    for (size_t input = 0; input < batch.inputs.size(); ++input) {
      const InputSpec &spec = batch.inputs[input];
      if (!spec.used || !formula::isFloat(spec.type.dtype))
        continue;
      bytes.resize(size_t(spec.type.numBytes()));
      const int64_t micro = turn / batch.dataDegree, rank = turn % batch.dataDegree;
      ZC_RETURN_IF_ERROR(load(input, step, micro, rank, bytes.data()));
      if (std::optional<int64_t> bad = firstNotFinite(spec.type.dtype, bytes)) {
        const int64_t rows = BatchSpec::rowsOf(spec), perRow = spec.type.numElements() / rows;
        const int64_t sample = sampleAt(positionOf(input, step, micro, rank) + *bad / perRow, rows);
        return "sample " + std::to_string(sample) + " of \"" + spec.name + "\" is not finite at position " +
               std::to_string(*bad % perRow) + " (" + path + ")";
      }
    }
  return std::string();
}

struct Extent {
  int64_t count = 1;
  bool inBatches = false;
};

/// Arrays have as many samples, or as many batches: of a graph's edges, beside its nodes, one row is no sample.
Result<Extent> countSamples(const std::vector<Array> &arrays, const BatchSpec &batch, const std::string &path) {
  std::optional<size_t> first;
  std::optional<Error> problem;
  bool areBatches = true;
  int64_t batches = 1;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!batch.inputs[i].used)
      continue;
    const int64_t samples = arrays[i].type.dims[0], rows = BatchSpec::rowsOf(batch.inputs[i]);
    if (!first) {
      first = i;
      batches = samples / rows;
    }
    areBatches &= samples % rows == 0 && samples / rows == batches;
    if (const int64_t seen = arrays[*first].type.dims[0]; samples != seen && !problem) {
      problem = makeError(Code::mismatch, 875,
                          "the array for graph input \"" + batch.inputs[i].name + "\" has " + std::to_string(samples) +
                              " samples but those before it have " + std::to_string(seen),
                          path);
      if (const int64_t others = BatchSpec::rowsOf(batch.inputs[*first]); rows != others)
        problem->note = "a batch takes " + std::to_string(rows) + " rows of it, " + std::to_string(others) +
                        " of those before: that many batches each would do, too";
    }
  }
  if (!problem)
    return Extent{first ? arrays[*first].type.dims[0] : 1, false};
  return areBatches ? Result<Extent>(Extent{batches, true}) : std::move(*problem);
}

} // namespace

Result<std::unique_ptr<InputSource>> openArrays(const DataOptions &options, const BatchSpec &batch) {
  auto collection = Collection::open(options.data);
  if (!collection)
    return collection.error();
  std::vector<Array> arrays;
  for (const InputSpec &input : batch.inputs) {
    arrays.emplace_back();
    if (!input.used)
      continue;
    auto array = collection->get(input.name);
    if (!array)
      return array.error();
    ZC_RETURN_IF_ERROR(checkType(input, *array, options.data));
    if (array->type.dims[0] < 1)
      return makeError(Code::badInput, 874, "the array for graph input \"" + input.name + "\" has no samples",
                       options.data);
    if (narrowOf(input.type.dtype) && (array->type.dtype != input.type.dtype || input.range.isKnown()))
      array->integers = integersOf(array->file, array->offset, array->type);
    arrays.back() = std::move(*array);
  }
  auto extent = countSamples(arrays, batch, options.data);
  if (!extent)
    return extent.error();
  auto source = std::make_unique<ArraySource>(SampleOrder(extent->count, options.shuffle, options.seed),
                                              extent->inBatches, batch, options.data);
  source->arrays = std::move(arrays);
  return std::unique_ptr<InputSource>(std::move(source));
}

Result<std::unique_ptr<InputSource>> openSource(const DataOptions &options, const BatchSpec &batch) {
  if (options.data.empty() == options.tokens.empty())
    return makeError(Code::usage, 876,
                     options.data.empty() ? "the run needs data" : "\"--data\" and \"--tokens\" exclude each other", "",
                     "give --data FILE.safetensors, --data FOLDER, or --tokens FILE");
  for (const InputSpec &input : batch.inputs)
    if (input.used && (BatchSpec::rowsOf(input) < 1 || input.type.numBytes() < 1))
      return makeError(Code::unsupported, 877, "graph input \"" + input.name + "\" has no elements");
  // Positions of a run must stay countable.
  if (double(batch.dataDegree) * double(batch.accumulation) * double(batch.rows()) > 0x1p40)
    return makeError(Code::unsupported, 878, "one step takes more than 2^40 samples");
  return options.data.empty() ? openTokens(options, batch) : openArrays(options, batch);
}

} // namespace zc::data
