//===- OutputFile.h - files that are written with every result checked ----------===//
//
// The bytes go to a temporary neighbour that is renamed over the target when it is complete and on disk, so that nobody
// ever sees half a file; without `commit` the temporary is unlinked.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/File.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace zc::io {

/// A file that appears under its name complete or not at all.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(OutputFile &&other) = default;
  OutputFile &operator=(OutputFile &&other) noexcept;
  /// Unlinks the temporary unless committed.
  ~OutputFile();

  /// Creates `path`.tmp-<pid>-<n> beside it, and locks it; such as killed processes left are removed. Errors: io.
  static Result<OutputFile> create(const std::string &path);
  /// Creates `path` itself, which must not be there yet and stays whatever happens: for a folder that is put in place
  /// as a whole. It needs no commit. Errors: io.
  static Result<OutputFile> createInPlace(const std::string &path);
  /// Appends. Errors: io (disk full, ...).
  Status write(const void *data, int64_t count);
  /// Overwrites bytes already written, or fills reserved ones; several threads may. Much at a time goes past the page
  /// cache (O_DIRECT), which the file system's blocks in it can where `data` has the same place in a page as `offset`.
  Status writeAt(const void *data, int64_t count, int64_t offset);
  /// Gives the file `count` bytes in all, on disk, so that it cannot be full later. Errors: io.
  Status reserve(int64_t count);
  /// Another process's file, created but not committed there, known by its temporaryName: to write into what is
  /// reserved. It is the other one's to commit. Errors: io.
  static Result<OutputFile> join(const std::string &temporaryName);
  const std::string &temporaryName() const { return temporary; }
  /// fsync alone. Errors: io.
  Status flush();
  /// fsync, rename onto the target, fsync of the folder. Errors: io; after one of the folder's the new file is there,
  /// but a power cut may bring the old one back.
  Status commit();
  int64_t size() const { return position; }

private:
  int createTemporary();
  const std::string &name() const { return target.empty() ? temporary : target; }
  void openDirect();
  Status writeAll(int to, const char *data, int64_t count, int64_t offset);
  Descriptor fd;
  Descriptor direct;      ///< the same file with O_DIRECT; not open: not used
  int64_t blockBytes = 0; ///< what such transfers are multiples of
  int64_t position = 0;
  std::string target, temporary; ///< `target` is empty where the file is another process's
};

/// Is the file's name, without folders, one that OutputFile::create gives?
bool isTemporary(std::string_view name);
/// Is the file what OutputFile::create left when its process was killed? Who writes one holds a lock on it, as long as
/// it is open: of whatever machine or container the process is, what is locked is not.
bool isLeftover(const std::string &path);
/// Removes it, if so.
void removeLeftover(const std::string &path);
/// Is the file's name one that a temporary of `path` has?
bool isTemporaryOf(const std::string &path, const std::string &temporary);
/// Replaces `path` by a file of these bytes, as an OutputFile does. Errors: io; what is there is no regular file.
Status replaceFile(const std::string &path, std::string_view bytes);
/// The same of what people name: a device, a FIFO or a socket is written to, and so is what this process has open
/// (/dev/stdout). A FIFO is waited for until somebody reads it, as by any program. Errors: io.
Status writeFileAtomically(const std::string &path, std::string_view bytes);
/// Could writeFileAtomically write `path`? Tried before what takes long. Errors: io.
Status checkReplaceable(const std::string &path);
/// All of `bytes` where this process writes already, stdout or stderr; where that is set not to block, as who shares it
/// may do, it waits for room. errno, 0: all is written.
int writeOn(int fd, std::string_view bytes);
/// All of `text`, which somebody asked for; a reader that has gone is nobody's error. Errors: io.
Status writeToStdout(std::string_view text);
/// Copies `from` whole into `to` (both still open afterwards).
Status copyInto(OutputFile &to, const File &from);
/// A file can be created in `folder` (tried, so that quotas, permissions and read-only mounts count). Errors: io.
Status checkWritable(const std::string &folder);

} // namespace zc::io
