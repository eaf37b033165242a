#include "runtime/io/Safetensors.h"

#include "base/JsonText.h"

namespace zc::io {

static const char *formatName(DType type) {
  switch (type) {
  case DType::f64:
    return "F64";
  case DType::f32:
    return "F32";
  case DType::f16:
    return "F16";
  case DType::bf16:
    return "BF16";
  case DType::i64:
    return "I64";
  case DType::i32:
    return "I32";
  case DType::i16:
    return "I16";
  case DType::i8:
    return "I8";
  case DType::u8:
    return "U8";
  case DType::boolean:
    return "BOOL";
  case DType::u16:
    return "U16";
  case DType::u32:
    return "U32";
  case DType::u64:
    return "U64";
  }
  return "U8";
}

/// The length in 8 bytes and the table.
Result<std::string> SafetensorsWriter::headerOf(const std::vector<Tensor> &tensors,
                                                const std::map<std::string, std::string> &metadata,
                                                const std::string &path) {
  std::string header = "{";
  std::string notes;
  int64_t begin = 0;
  for (const auto &[key, value] : metadata)
    notes += (notes.empty() ? "" : ",") + jsonText(key) + ":" + jsonText(value);
  if (!metadata.empty())
    header += "\"__metadata__\":{" + notes + "}";
  std::map<std::string, bool> seen;
  for (const Tensor &tensor : tensors) {
    std::string name = jsonText(tensor.name);
    if (!seen.emplace(name, true).second)
      return makeError(Code::internal, 833, "tensor \"" + tensor.name + "\" is written twice", path);
    std::string shape;
    for (int64_t dim : tensor.type.dims)
      shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    int64_t end = begin + tensor.type.numBytes();
    header += std::string(header.size() > 1 ? "," : "") + name + ":{\"dtype\":\"" + formatName(tensor.type.dtype) +
              "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) +
              "]}";
    begin = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' '); // aligned data, as the reference writer does
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + header;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path, std::vector<Tensor> tensors,
                                                    const std::map<std::string, std::string> &metadata) {
  auto header = headerOf(tensors, metadata, path);
  if (!header)
    return header.error();
  SafetensorsWriter writer;
  for (const Tensor &tensor : tensors)
    writer.expected += tensor.type.numBytes();
  auto out = OutputFile::create(path);
  if (!out)
    return out.error();
  writer.out = std::move(*out);
  ZC_RETURN_IF_ERROR(writer.out.write(header->data(), int64_t(header->size())));
  return writer;
}

Status SafetensorsWriter::append(const void *data, int64_t count) {
  if (count < 0 || count > expected - given)
    return makeError(Code::internal, 834, "more tensor bytes are written than announced");
  given += count;
  return out.write(data, count);
}

Status SafetensorsWriter::commit() {
  if (given != expected)
    return makeError(Code::internal, 835, "fewer tensor bytes were written than announced");
  return out.commit();
}

Result<SafetensorsTable> SafetensorsTable::layOut(const std::vector<Tensor> &tensors, const Notes &notes,
                                                  const std::string &path) {
  auto header = SafetensorsWriter::headerOf(tensors, notes, path);
  if (!header)
    return header.error();
  SafetensorsTable table;
  table.header = std::move(*header);
  table.positions.push_back(int64_t(table.header.size()));
  for (const Tensor &tensor : tensors)
    table.positions.push_back(table.positions.back() + tensor.type.numBytes());
  return table;
}

Result<SafetensorsTable> SafetensorsTable::create(const std::string &path, std::vector<Tensor> tensors) {
  auto table = layOut(tensors, {}, path);
  if (!table)
    return table;
  auto out = OutputFile::create(path);
  if (!out)
    return out.error();
  table->out = std::move(*out);
  ZC_RETURN_IF_ERROR(table->begin());
  return table;
}

Result<SafetensorsTable> SafetensorsTable::createInPlace(const std::string &path, const std::vector<Tensor> &tensors,
                                                         const Notes &notes) {
  auto table = layOut(tensors, notes, path);
  if (!table)
    return table;
  auto out = OutputFile::createInPlace(path);
  if (!out)
    return out.error();
  table->out = std::move(*out);
  ZC_RETURN_IF_ERROR(table->begin());
  return table;
}

Status SafetensorsTable::begin() {
  ZC_RETURN_IF_ERROR(out.reserve(positions.back()));
  return out.writeAt(header.data(), int64_t(header.size()), 0);
}

Result<SafetensorsTable> SafetensorsTable::join(const std::string &temporaryName, const std::vector<Tensor> &tensors,
                                                const Notes &notes) {
  auto table = layOut(tensors, notes, temporaryName);
  if (!table)
    return table;
  auto out = OutputFile::join(temporaryName);
  if (!out)
    return out.error();
  table->out = std::move(*out);
  return table;
}

Status SafetensorsTable::place(size_t tensor, int64_t offset, const void *data, int64_t count) {
  if (offset < 0 || count < 0 || count > positions.back() - positions[tensor] - offset)
    return makeError(Code::internal, 834, "more tensor bytes are written than announced");
  return out.writeAt(data, count, positions[tensor] + offset);
}

} // namespace zc::io
