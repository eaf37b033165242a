//===- Wire.cpp - reading Protobuf fields straight from a file ----------------===//
#include "compiler/import/file/Wire.h"

#include <algorithm>
#include <cstring>

using namespace zc::importer;

bool FileReader::read(uint64_t offset, void *out, uint64_t bytes) {
  if (bytes > size() || offset > size() - bytes)
    return false;
  constexpr uint64_t chunk = 1u << 16;
  if (bytes >= chunk)
    return source.readAt(out, bytes, offset).ok();
  if (offset < bufferStart || offset + bytes > bufferStart + buffer.size()) {
    buffer.resize(std::min(chunk, size() - offset));
    bufferStart = offset;
    if (!source.readAt(buffer.data(), buffer.size(), offset).ok()) {
      buffer.clear();
      return false;
    }
  }
  std::memcpy(out, buffer.data() + (offset - bufferStart), bytes);
  return true;
}

bool FileReader::append(uint64_t offset, uint64_t bytes, std::string &out) {
  if (bytes > size() || offset > size() - bytes)
    return false;
  size_t old = out.size();
  out.resize(old + bytes);
  return bytes == 0 || read(offset, out.data() + old, bytes);
}

WireCursor::Next WireCursor::fail(const char *what, uint64_t at) {
  problemText = std::string(what) + " at byte " + std::to_string(at);
  return Next::malformed;
}

bool WireCursor::varint(uint64_t &value) {
  value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    uint8_t byte;
    if (position >= limit || !file.read(position, &byte, 1))
      return false;
    ++position;
    if (shift == 63 && byte > 1)
      return false;
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return true;
  }
  return false;
}

WireCursor::Next WireCursor::next(WireField &field) {
  if (position == limit)
    return Next::end;
  field.start = position;
  uint64_t tag, bytes = 0;
  if (!varint(tag))
    return fail("a field's tag is cut off or too long", field.start);
  field.number = static_cast<uint32_t>(tag >> 3);
  field.type = tag & 7;
  if (field.number == 0 || (tag >> 3) > 0x1fffffff)
    return fail("a field has number 0 or one out of range", field.start);
  field.payload = position;
  switch (field.type) {
  case 0:
    if (!varint(bytes))
      return fail("an integer is cut off or too long", field.start);
    field.end = position;
    return Next::field;
  case 1:
    bytes = 8;
    break;
  case 2:
    if (!varint(bytes))
      return fail("a length is cut off or too long", field.start);
    field.payload = position;
    break;
  case 5:
    bytes = 4;
    break;
  default:
    return fail("a field has a type that this format does not use", field.start);
  }
  if (bytes > limit - position) {
    problemText = "field " + std::to_string(field.number) + " at byte " + std::to_string(field.start) + " needs " +
                  std::to_string(bytes) + " bytes, but " + std::to_string(limit - position) + " are left";
    return Next::malformed;
  }
  position += bytes;
  field.end = position;
  return Next::field;
}
