//===- Safetensors.h - the safetensors format ----------------------------------===//
//
// u64 N (little endian), N bytes of JSON `{name: {"dtype", "shape", "data_offsets": [begin, end]}, ...}`, then the
// data: the tensors' bytes without holes or overlaps. https://huggingface.co/docs/safetensors A file is checked whole
// when it is opened; afterwards every entry's bytes lie inside it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Tensor.h"
#include "runtime/io/OutputFile.h"

#include <map>

namespace zc::io {

struct SafetensorsEntry {
  std::string name;
  TensorType type;
  int64_t offset = 0; ///< bytes from the start of the file
  int64_t bytes = 0;
};

/// A safetensors file open for reading.
class SafetensorsFile {
public:
  /// Errors: badInput (malformed, naming what and where), unsupported (an element type we have not), io.
  static Result<SafetensorsFile> open(const std::string &path);

  /// Sorted by name.
  const std::vector<SafetensorsEntry> &entries() const { return table; }
  const std::map<std::string, std::string> &metadata() const { return notes; }
  const SafetensorsEntry *find(const std::string &name) const;
  const File &file() const { return bytes; }
  File takeFile() { return std::move(bytes); }

private:
  File bytes;
  std::vector<SafetensorsEntry> table;
  std::map<std::string, std::string> notes;
};

/// Writes a safetensors file in one pass: the table is fixed first, then the tensors follow in its order.
class SafetensorsWriter {
public:
  struct Tensor {
    std::string name;
    TensorType type;
  };
  /// Errors: io; internal for a name given twice.
  static Result<SafetensorsWriter> create(const std::string &path, std::vector<Tensor> tensors,
                                          const std::map<std::string, std::string> &metadata);
  /// Appends elements of the current tensor, which ends when all its bytes are there.
  Status append(const void *data, int64_t count);
  /// All bytes must have been given. The file appears under its name.
  Status commit();

private:
  friend class SafetensorsTable;
  static Result<std::string> headerOf(const std::vector<Tensor> &tensors,
                                      const std::map<std::string, std::string> &metadata, const std::string &path);
  OutputFile out;
  int64_t expected = 0, given = 0;
};

/// A safetensors file whose tensors are filled in any order, by several threads and processes.
class SafetensorsTable {
public:
  using Tensor = SafetensorsWriter::Tensor;
  using Notes = std::map<std::string, std::string>; ///< the file's metadata
  /// Takes all bytes of the file at once. Errors: io; internal for a name given twice.
  static Result<SafetensorsTable> create(const std::string &path, std::vector<Tensor> tensors);
  /// The same without a temporary: for a folder that is put in place as a whole (OutputFile::createInPlace).
  static Result<SafetensorsTable> createInPlace(const std::string &path, const std::vector<Tensor> &tensors,
                                                const Notes &notes);
  /// Another process's table; `tensors` and `notes` are the same. Errors: io.
  static Result<SafetensorsTable> join(const std::string &temporaryName, const std::vector<Tensor> &tensors,
                                       const Notes &notes = {});
  /// What the others join.
  const std::string &temporaryName() const { return out.temporaryName(); }

  /// What stands before the tensors, and where a tensor's bytes begin; index `tensors`: the file's size.
  const std::string &head() const { return header; }
  int64_t positionOf(size_t tensor) const { return positions[tensor]; }
  /// Bytes [offset, offset + count) of a tensor, and of those that follow it. Errors: io; internal beyond the last.
  Status place(size_t tensor, int64_t offset, const void *data, int64_t count);
  /// What this process has placed is on disk.
  Status flush() { return out.flush(); }
  /// When all have flushed: the file appears under its name. The creator's turn.
  Status commit() { return out.commit(); }

private:
  static Result<SafetensorsTable> layOut(const std::vector<Tensor> &tensors, const Notes &notes,
                                         const std::string &path);
  Status begin();
  OutputFile out;
  std::string header;             ///< with its length
  std::vector<int64_t> positions; ///< of tensors in the file, and its end
};

} // namespace zc::io
