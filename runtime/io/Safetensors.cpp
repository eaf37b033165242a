#include "runtime/io/Safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace zc::io {

namespace {

// The format's own limit is 100 MB; a hundred thousand tensors of a kilobyte's description fit.
constexpr int64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxTensors = 1'000'000, kMaxName = 4096;

struct Known {
  const char *name;
  DType type;
};
constexpr Known kTypes[] = {{"F64", DType::f64},     {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16},
                            {"I64", DType::i64},     {"I32", DType::i32}, {"I16", DType::i16}, {"I8", DType::i8},
                            {"U8", DType::u8},       {"U16", DType::u16}, {"U32", DType::u32}, {"U64", DType::u64},
                            {"BOOL", DType::boolean}};
constexpr const char *kForeign[] = {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "F6_E2M3", "F6_E3M2", "C64"};

/// What the header says of one tensor.
struct Description {
  std::string dtype;
  std::vector<uint64_t> shape, offsets;
  bool hasDtype = false, hasShape = false, hasOffsets = false;
};

/// Reads the header as a stream of events: nothing nests deeper than three levels, so a deep or huge document is
/// refused where it starts to be one, and a name that comes twice is seen (a tree of objects would keep the last).
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
public:
  std::map<std::string, Description> tensors;
  std::map<std::string, std::string> metadata;
  std::string problem;
  Code code = Code::badInput;

  bool null() override { return refuse("null is not allowed"); }
  bool boolean(bool) override { return refuse("a boolean is not allowed"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number is not allowed"); }
  bool number_float(number_float_t, const string_t &text) override {
    return refuse("number " + text.substr(0, 40) + " is not an integer in range");
  }
  bool binary(binary_t &) override { return refuse("binary is not allowed"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth != 3 || !list)
      return refuse("a number stands in the wrong place");
    if (list->size() >= kMaxRank)
      return refuse("a list has more than " + std::to_string(kMaxRank) + " numbers");
    list->push_back(value);
    return true;
  }
  bool string(string_t &text) override {
    if (depth == 2 && inMetadata) {
      metadata[field] = text;
      return true;
    }
    if (depth != 2 || field != "dtype")
      return refuse("a string stands in the wrong place");
    tensors[tensor].dtype = text;
    return true;
  }
  bool start_object(size_t) override {
    if (depth >= 2)
      return refuse("objects nest too deep");
    ++depth;
    return true;
  }
  bool end_object() override {
    --depth;
    inMetadata = false;
    return true;
  }
  bool start_array(size_t) override {
    if (depth != 2 || inMetadata || field == "dtype")
      return refuse("a list stands in the wrong place");
    Description &description = tensors[tensor];
    list = field == "shape" ? &description.shape : &description.offsets;
    ++depth;
    return true;
  }
  bool end_array() override {
    --depth;
    list = nullptr;
    return true;
  }
  bool key(string_t &text) override { return depth == 1 ? tensorKey(text) : fieldKey(text); }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    return problem.empty() ? refuse("not valid JSON at byte " + std::to_string(position)) : false;
  }

private:
  bool tensorKey(const std::string &text) {
    if (text.size() > kMaxName)
      return refuse("a name is longer than " + std::to_string(kMaxName) + " bytes");
    if (text == "__metadata__") {
      if (seenMetadata)
        return refuse("\"__metadata__\" comes twice");
      return inMetadata = seenMetadata = true;
    }
    tensor = text;
    if (!tensors.emplace(text, Description()).second)
      return refuse("it comes twice");
    return tensors.size() <= kMaxTensors || refuse("there are more than " + std::to_string(kMaxTensors) + " tensors");
  }
  bool fieldKey(const std::string &text) {
    field = text;
    if (inMetadata)
      return metadata.emplace(text, "").second || refuse("metadata \"" + text + "\" comes twice");
    Description &description = tensors[tensor];
    bool *seen = text == "dtype"          ? &description.hasDtype
                 : text == "shape"        ? &description.hasShape
                 : text == "data_offsets" ? &description.hasOffsets
                                          : nullptr;
    if (!seen)
      return refuse("unknown field \"" + text.substr(0, 60) + "\"");
    if (*seen)
      return refuse("\"" + text + "\" comes twice");
    return *seen = true;
  }
  bool refuse(const std::string &why) {
    problem = (tensor.empty() ? "" : "tensor \"" + tensor + "\": ") + why;
    return false;
  }

  int depth = 0;
  bool inMetadata = false, seenMetadata = false;
  std::string tensor, field;
  std::vector<uint64_t> *list = nullptr;
};

Error malformed(const std::string &path, const std::string &why) {
  return makeError(Code::badInput, 831, "not a valid safetensors file: " + why, path);
}

Result<DType> typeOf(const std::string &path, const std::string &tensor, const std::string &dtype) {
  for (const Known &known : kTypes)
    if (dtype == known.name)
      return known.type;
  for (const char *foreign : kForeign)
    if (dtype == foreign)
      return makeError(Code::unsupported, 832,
                       "tensor \"" + tensor + "\" has element type " + dtype + ", which is not supported", path);
  return malformed(path, "tensor \"" + tensor + "\" has the unknown element type \"" + dtype.substr(0, 40) + "\"");
}

/// `data` bytes follow the header.
Result<SafetensorsEntry> entryOf(const std::string &path, const std::string &name, const Description &description,
                                 uint64_t data) {
  if (!description.hasDtype || !description.hasShape || !description.hasOffsets || description.offsets.size() != 2)
    return malformed(path, "tensor \"" + name + "\" needs dtype, shape and two data_offsets");
  auto type = typeOf(path, name, description.dtype);
  if (!type)
    return type.error();
  SafetensorsEntry entry;
  entry.name = name;
  entry.type.dtype = *type;
  uint64_t elements = 1;
  for (uint64_t dim : description.shape) {
    if (__builtin_mul_overflow(elements, dim, &elements) || elements > uint64_t(kMaxElements) ||
        dim > uint64_t(kMaxElements))
      return malformed(path, "tensor \"" + name + "\" has too many elements");
    entry.type.dims.push_back(int64_t(dim));
  }
  uint64_t begin = description.offsets[0], end = description.offsets[1];
  if (begin > end || end > data)
    return malformed(path, "tensor \"" + name + "\" lies at [" + std::to_string(begin) + ", " + std::to_string(end) +
                               "), but there are " + std::to_string(data) + " bytes of data");
  entry.offset = int64_t(begin);
  entry.bytes = int64_t(end - begin);
  if (entry.bytes != entry.type.numBytes())
    return malformed(path, "tensor \"" + name + "\" needs " + std::to_string(entry.type.numBytes()) +
                               " bytes but has " + std::to_string(entry.bytes));
  return entry;
}

/// The tensors must tile the data exactly; anything else could hide bytes or let two tensors share them.
Status checkTiling(const std::string &path, const std::vector<SafetensorsEntry> &table, int64_t data) {
  std::vector<const SafetensorsEntry *> order;
  for (const SafetensorsEntry &entry : table)
    order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const SafetensorsEntry *a, const SafetensorsEntry *b) {
    return std::make_pair(a->offset, a->bytes) < std::make_pair(b->offset, b->bytes);
  });
  int64_t at = 0;
  for (const SafetensorsEntry *entry : order) {
    if (entry->offset != at)
      return malformed(path, "tensor \"" + entry->name + "\" begins at " + std::to_string(entry->offset) +
                                 ", but the tensor before it ends at " + std::to_string(at));
    at += entry->bytes;
  }
  if (at != data)
    return malformed(path, std::to_string(data - at) + " bytes follow the last tensor");
  return Status::success();
}

} // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  auto opened = File::open(path);
  if (!opened)
    return opened.error();
  SafetensorsFile result;
  result.bytes = std::move(*opened);
  int64_t size = result.bytes.size();
  if (size < 10)
    return malformed(path, "it has only " + std::to_string(size) + " bytes");
  uint64_t length = 0;
  ZC_RETURN_IF_ERROR(result.bytes.readAt(&length, 8, 0));
  if (length < 2 || length > uint64_t(size) - 8 || length > uint64_t(kMaxHeader))
    return malformed(path, "the header is said to have " + std::to_string(length) + " bytes, the file has " +
                               std::to_string(size));
  std::string header(length, '\0');
  ZC_RETURN_IF_ERROR(result.bytes.readAt(header.data(), int64_t(length), 8));
  if (header[0] != '{')
    return malformed(path, "the header does not begin with '{'");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header, &reader))
    return malformed(path, reader.problem);
  int64_t data = size - 8 - int64_t(length);
  for (const auto &[name, description] : reader.tensors) {
    auto entry = entryOf(path, name, description, uint64_t(data));
    if (!entry)
      return entry.error();
    result.table.push_back(std::move(*entry));
  }
  ZC_RETURN_IF_ERROR(checkTiling(path, result.table, data));
  for (SafetensorsEntry &entry : result.table)
    entry.offset += 8 + int64_t(length);
  result.notes = std::move(reader.metadata);
  return result;
}

const SafetensorsEntry *SafetensorsFile::find(const std::string &name) const {
  auto at = std::lower_bound(table.begin(), table.end(), name,
                             [](const SafetensorsEntry &entry, const std::string &key) { return entry.name < key; });
  return at != table.end() && at->name == name ? &*at : nullptr;
}

} // namespace zc::io
