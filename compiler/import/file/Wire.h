//===- Wire.h - reading Protobuf fields straight from a file ------------------===//
//
// Walks the fields of a message without holding it in memory, so that weights can be found and skipped in files of any
// size. See protobuf.dev/programming-guides/encoding.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/File.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zc::importer {

/// Small reads of one file through a buffer.
class FileReader {
public:
  FileReader() = default;
  explicit FileReader(io::File file) : source(std::move(file)) {}

  const io::File &file() const { return source; }
  uint64_t size() const { return static_cast<uint64_t>(source.size()); }
  /// False on an I/O error, past the end, or on a file that became shorter.
  bool read(uint64_t offset, void *out, uint64_t bytes);
  bool append(uint64_t offset, uint64_t bytes, std::string &out);

private:
  io::File source;
  uint64_t bufferStart = 0;
  std::vector<char> buffer;
};

/// One field: its place and, for length-delimited ones, that of its payload.
struct WireField {
  uint32_t number = 0;
  uint32_t type = 0; ///< 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32
  uint64_t start = 0;
  uint64_t payload = 0; ///< first byte after tag (and length)
  uint64_t end = 0;
  bool isMessage() const { return type == 2; }
  uint64_t payloadBytes() const { return end - payload; }
};

/// The fields of the message in bytes [begin, end) of a file.
class WireCursor {
public:
  WireCursor(FileReader &file, uint64_t begin, uint64_t end) : file(file), position(begin), limit(end) {}
  WireCursor(FileReader &file, const WireField &message) : WireCursor(file, message.payload, message.end) {}

  enum class Next { field, end, malformed };
  /// Nothing is read past the message's end; on `malformed`, `problem` says what and at which byte.
  Next next(WireField &field);
  const std::string &problem() const { return problemText; }

private:
  Next fail(const char *what, uint64_t at);
  bool varint(uint64_t &value);

  FileReader &file;
  uint64_t position;
  uint64_t limit;
  std::string problemText;
};

} // namespace zc::importer
