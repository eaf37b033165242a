//===- OrtCheckpoint.cpp - the FlatBuffers checkpoint of ONNX Runtime training --===//
//
// Layout of FlatBuffers: https://flatbuffers.dev/internals; tables as in onnxruntime's checkpoint.fbs and ort.fbs. Read
// without a generated parser: five tables, every offset checked against the file before it is followed.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/base/Errors.h"
#include "compiler/import/training/OrtArtifacts.h"

#include <cstring>

using namespace zc;
using namespace zc::importer;

namespace {

constexpr uint64_t maxBytes = (uint64_t(1) << 31) - 1; ///< offsets are 32 bits
constexpr uint32_t maxTensors = 1000000, maxName = 4096, maxRank = 64;

/// Reads little-endian numbers; after the first one out of bounds everything is 0 and `ok` is false.
class Flat {
public:
  explicit Flat(const io::File &file) : file(file) {}

  template <typename T> T number(uint64_t at) {
    T value{};
    if (ok && at <= uint64_t(file.size()) && sizeof(T) <= uint64_t(file.size()) - at)
      ok = file.readAt(&value, sizeof(T), static_cast<int64_t>(at)).ok();
    else
      ok = false;
    return ok ? value : T{};
  }
  /// Where the offset at `at` leads.
  uint64_t follow(uint64_t at) {
    auto offset = number<uint32_t>(at);
    ok = ok && offset != 0;
    return at + offset;
  }
  /// Place of field `index` of the table at `table`; 0 when it is not there.
  uint64_t field(uint64_t table, unsigned index) {
    int64_t vtable = static_cast<int64_t>(table) - number<int32_t>(table);
    ok = ok && vtable >= 0;
    auto bytes = number<uint16_t>(static_cast<uint64_t>(vtable));
    uint64_t slot = 4 + 2 * uint64_t(index);
    if (!ok || slot + 2 > bytes)
      return 0;
    auto offset = number<uint16_t>(static_cast<uint64_t>(vtable) + slot);
    return offset == 0 ? 0 : table + offset;
  }
  std::string text(uint64_t at) {
    auto length = number<uint32_t>(at);
    std::string value;
    if (!ok || length > maxName || at + 4 + length > uint64_t(file.size()))
      return ok = false, value;
    value.resize(length);
    ok = file.readAt(value.data(), length, static_cast<int64_t>(at + 4)).ok();
    return value;
  }

  const io::File &file;
  bool ok = true;
};

bool readTensor(Flat &flat, uint64_t table, CheckpointTensor &out) {
  if (uint64_t name = flat.field(table, 0))
    out.name = flat.text(flat.follow(name));
  if (uint64_t dims = flat.field(table, 2)) {
    uint64_t vector = flat.follow(dims);
    auto rank = flat.number<uint32_t>(vector);
    flat.ok = flat.ok && rank <= maxRank;
    for (uint32_t d = 0; flat.ok && d < rank; ++d)
      out.dims.push_back(flat.number<int64_t>(vector + 4 + 8 * uint64_t(d)));
  }
  if (uint64_t type = flat.field(table, 3))
    out.dataType = flat.number<int32_t>(type);
  uint64_t raw = flat.field(table, 4);
  if (!raw)
    return false;
  uint64_t vector = flat.follow(raw);
  out.bytes = flat.number<uint32_t>(vector);
  out.offset = vector + 4;
  return flat.ok && out.offset + out.bytes <= uint64_t(flat.file.size());
}

} // namespace

Result<std::vector<CheckpointTensor>> zc::importer::readOrtCheckpoint(const io::File &file) {
  const std::string &where = file.path();
  char identifier[4] = {};
  if (uint64_t(file.size()) > maxBytes || file.size() < 12 || !file.readAt(identifier, 4, 4).ok() ||
      std::memcmp(identifier, "ODTC", 4) != 0)
    return badFile(badCheckpoint, "is not a training checkpoint of ONNX Runtime (\"ODTC\")", where);
  Flat flat(file);
  uint64_t root = flat.follow(0), state = flat.field(root, 1);
  std::vector<CheckpointTensor> tensors;
  uint64_t module = state ? flat.follow(state) : 0;
  for (unsigned list = 0; module && flat.ok && list < 2; ++list) { // requires_grad_params, frozen_params
    uint64_t place = flat.field(module, list);
    uint64_t vector = place ? flat.follow(place) : 0;
    auto count = vector ? flat.number<uint32_t>(vector) : 0;
    flat.ok = flat.ok && count <= maxTensors;
    for (uint32_t k = 0; flat.ok && k < count; ++k) {
      CheckpointTensor tensor;
      tensor.trained = list == 0;
      if (!readTensor(flat, flat.follow(vector + 4 + 4 * uint64_t(k)), tensor) && flat.ok)
        return unsupportedError(
            badCheckpoint, "keeps the values of '" + tensor.name + "' in another file, or has none of them", where);
      tensors.push_back(std::move(tensor));
    }
  }
  if (!flat.ok || !module)
    return badFile(badCheckpoint, "is damaged: an offset leads out of the file", where);
  return tensors;
}
