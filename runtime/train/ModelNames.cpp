#include "runtime/train/ModelNames.h"

#include <algorithm>
#include <functional>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <nlohmann/json.hpp>

namespace zc::train {

namespace {

using google::protobuf::io::CodedInputStream;

/// The bytes of a file from where it is read on; what is skipped is not read.
class FileBytes : public google::protobuf::io::ZeroCopyInputStream {
public:
  explicit FileBytes(const io::File &file) : file(file) {}
  bool Next(const void **data, int *size) override {
    int64_t n = std::min<int64_t>(sizeof buffer, file.size() - at);
    if (n <= 0 || !file.readAt(buffer, n, at).ok())
      return false;
    at += n;
    *data = buffer;
    *size = int(n);
    return true;
  }
  void BackUp(int count) override { at -= count; }
  bool Skip(int count) override {
    at += count;
    return at <= file.size();
  }
  int64_t ByteCount() const override { return at; }

private:
  const io::File &file;
  int64_t at = 0;
  char buffer[1 << 13];
};

/// Numbers of onnx.proto's fields.
enum Model { kGraph = 7, kModelNotes = 14 };
enum Graph { kInitializer = 5, kValueInfo = 13, kGraphNotes = 16 };
enum Tensor { kDims = 1, kDataType = 2, kTensorName = 8, kRawData = 9, kExternal = 13 };
enum Value { kValueName = 1, kValueNotes = 4 };
enum Entry { kEntryKey = 1, kEntryText = 2 };

constexpr uint32_t kMaxText = 64 << 20; ///< a signature has a line for each parameter

class ModelReader {
public:
  ModelReader(CodedInputStream &in, ModelNames &names) : in(in), names(names) {}
  bool model() {
    return message([this](uint32_t tag) {
      return tag == length(kGraph)        ? within([this] { return graph(); })
             : tag == length(kModelNotes) ? note([this](auto &key, auto &text) { packageNote(key, text); })
                                          : skip(tag);
    });
  }

private:
  /// The tag of a field that has a length.
  static constexpr uint32_t length(int field) { return uint32_t(field) << 3 | 2; }

  template <typename Field> bool message(Field field) {
    while (uint32_t tag = in.ReadTag())
      if (!field(tag))
        return false;
    return in.ConsumedEntireMessage();
  }
  template <typename Inner> bool within(Inner inner) {
    uint32_t size = 0;
    if (!in.ReadVarint32(&size))
      return false;
    auto limit = in.PushLimit(int(size));
    bool fine = inner();
    in.PopLimit(limit);
    return fine;
  }
  bool skip(uint32_t tag) {
    uint64_t number = 0;
    uint32_t size = 0;
    switch (tag & 7) {
    case 0:
      return in.ReadVarint64(&number);
    case 1:
      return in.Skip(8);
    case 2:
      return in.ReadVarint32(&size) && in.Skip(int(size));
    case 5:
      return in.Skip(4);
    default:
      return false;
    }
  }
  bool text(std::string &to) {
    uint32_t size = 0;
    return in.ReadVarint32(&size) && size <= kMaxText && in.ReadString(&to, int(size));
  }
  bool note(const std::function<void(const std::string &, const std::string &)> &take) {
    std::string key, value;
    bool fine = within([&] {
      return message([&](uint32_t tag) {
        return tag == length(kEntryKey) ? text(key) : tag == length(kEntryText) ? text(value) : skip(tag);
      });
    });
    if (fine)
      take(key, value);
    return fine;
  }
  bool graph() {
    return message([this](uint32_t tag) {
      return tag == length(kInitializer)  ? within([this] { return initializer(); })
             : tag == length(kValueInfo)  ? within([this] { return value(); })
             : tag == length(kGraphNotes) ? note([this](auto &key, auto &text) { signature(key, text); })
                                          : skip(tag);
    });
  }
  bool initializer();
  bool rawData(ModelNames::Initializer &tensor);
  bool dims(uint32_t tag, ModelNames::Initializer &tensor);
  bool value();
  void packageNote(const std::string &key, const std::string &text);
  void signature(const std::string &key, const std::string &text);

  CodedInputStream &in;
  ModelNames &names;
};

/// ONNX's number of an element type.
std::optional<DType> typeOf(uint64_t number) {
  static const std::map<uint64_t, DType> kTypes = {
      {1, DType::f32}, {2, DType::u8},      {3, DType::i8},   {4, DType::u16},  {5, DType::i16},  {6, DType::i32},
      {7, DType::i64}, {9, DType::boolean}, {10, DType::f16}, {11, DType::f64}, {16, DType::bf16}};
  auto found = kTypes.find(number);
  return found == kTypes.end() ? std::nullopt : std::optional<DType>(found->second);
}

bool ModelReader::rawData(ModelNames::Initializer &tensor) {
  uint32_t size = 0;
  if (!in.ReadVarint32(&size))
    return false;
  tensor.offset = in.CurrentPosition();
  tensor.bytes = size;
  tensor.isKnown = true;
  return in.Skip(int(size));
}

/// One by one, or packed.
bool ModelReader::dims(uint32_t tag, ModelNames::Initializer &tensor) {
  auto one = [&] {
    uint64_t dim = 0;
    bool fine = in.ReadVarint64(&dim) && dim < uint64_t(1) << 48 && tensor.type.dims.size() < 64;
    tensor.type.dims.push_back(int64_t(dim));
    return fine;
  };
  if ((tag & 7) == 0)
    return one();
  return within([&] {
    while (in.BytesUntilLimit() > 0)
      if (!one())
        return false;
    return true;
  });
}

bool ModelReader::initializer() {
  ModelNames::Initializer tensor;
  std::string name;
  uint64_t type = 0;
  bool fine = message([&](uint32_t tag) {
    if (tag >> 3 == kDims)
      return dims(tag, tensor);
    if (tag == kDataType << 3)
      return in.ReadVarint64(&type);
    if (tag == length(kTensorName))
      return text(name);
    if (tag == length(kRawData))
      return rawData(tensor);
    if (tag != length(kExternal))
      return skip(tag);
    return note([&](const std::string &key, const std::string &text) {
      tensor.isKnown |= key == "location";
      if (key == "location")
        tensor.file = text;
      if (key == "offset")
        tensor.offset = std::strtoll(text.c_str(), nullptr, 10);
      if (key == "length")
        tensor.bytes = std::strtoll(text.c_str(), nullptr, 10);
    });
  });
  auto dtype = typeOf(type);
  tensor.isKnown &= dtype.has_value();
  tensor.type.dtype = dtype.value_or(DType::f32);
  double elements = 1; // of an untrusted file: as an integer their product may overflow
  for (int64_t dim : tensor.type.dims)
    elements *= double(dim);
  tensor.isKnown &= elements * double(sizeOf(tensor.type.dtype)) == double(tensor.bytes) && tensor.offset >= 0;
  names.initializers[name] = std::move(tensor);
  return fine;
}

/// Strings of a Python list or line: what stands in single quotes.
std::vector<std::string> quotedStrings(const std::string &text) {
  std::vector<std::string> found;
  for (size_t open = text.find('\''); open != std::string::npos; open = text.find('\'', open)) {
    size_t close = text.find('\'', open + 1);
    if (close == std::string::npos)
      break;
    found.push_back(text.substr(open + 1, close - open - 1));
    open = close + 1;
  }
  return found;
}

bool ModelReader::value() {
  std::string name, kind, foldedFrom;
  bool fine = message([&](uint32_t tag) {
    if (tag == length(kValueName))
      return text(name);
    if (tag != length(kValueNotes))
      return skip(tag);
    return note([&](const std::string &key, const std::string &text) {
      if (key == "pkg.torch.export.graph_signature.InputSpec.kind")
        kind = text;
      if (key == "pkg.onnxscript.optimizer.folded_from")
        foldedFrom = text;
    });
  });
  if (kind == "PARAMETER" || kind == "FROZEN" || kind == "BUFFER")
    names.parameters.insert(name);
  else if (std::vector<std::string> origins = quotedStrings(foldedFrom); origins.size() == 1)
    names.copyOf[name] = origins[0];
  return fine;
}

/// What zero export wrote: values are JSON.
void ModelReader::packageNote(const std::string &key, const std::string &text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (key == "zero.tied" && json.is_object()) {
    names.isComplete = true;
    for (auto &[name, first] : json.items())
      if (first.is_string())
        names.tied[name] = first.get<std::string>();
  }
  const std::pair<const char *, std::set<std::string> *> lists[] = {
      {"zero.frozen", &names.parameters}, {"zero.constants", &names.others}, {"zero.unused", &names.unused}};
  for (const auto &[list, into] : lists)
    if (key == list && json.is_array())
      for (const auto &name : json)
        if (name.is_string())
          into->insert(name.get<std::string>());
}

/// Lines such as "b_mask: BUFFER target='attn.mask' persistent=False".
void ModelReader::signature(const std::string &key, const std::string &text) {
  if (key != "pkg.torch.export.ExportedProgram.graph_signature")
    return;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    bool isParameter = line.find(": PARAMETER ") != std::string::npos;
    bool isBuffer = line.find(": BUFFER ") != std::string::npos;
    std::vector<std::string> targets = quotedStrings(line);
    if ((!isParameter && !isBuffer) || targets.empty())
      continue;
    bool isState = isParameter || line.find("persistent=False") == std::string::npos;
    (isState ? names.parameters : names.others).insert(targets[0]);
    names.isComplete = true;
  }
}

} // namespace

Result<ModelNames> readModelNames(const io::File &model) {
  ModelNames names;
  FileBytes bytes(model);
  CodedInputStream in(&bytes);
  if (!ModelReader(in, names).model() || names.initializers.empty())
    return makeError(Code::badInput, 923, "not a usable ONNX model: its initializers cannot be read", model.path());
  for (const std::string &other : names.others)
    names.parameters.erase(other);
  return names;
}

} // namespace zc::train
