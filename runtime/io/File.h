//===- File.h - files that are read and written with every result checked ------===//
//
// Reading: regular files only, opened without blocking, read with pread. A short read inside the expected range is an
// error (the file shrank), an interrupted one is resumed. Never mmap: a file that somebody else truncates would kill
// the process. Writing: the bytes go to a temporary neighbour that is renamed over the target when it is complete and
// on disk, so that nobody ever sees half a file; without `commit` the temporary is unlinked.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace zc::io {

/// "no space left on device"
std::string reasonOf(int errnum);
/// Error of a failed system call: code, "cannot write \"path\": no space left on device".
Error errnoError(Code code, int number, const std::string &doing, const std::string &path, int errnum);

/// A regular file opened for reading.
class File {
public:
  File() = default;
  File(File &&other) noexcept;
  File &operator=(File &&other) noexcept;
  ~File();

  /// Errors: badInput when it does not exist, may not be read or is not a regular file.
  static Result<File> open(const std::string &path);
  /// Opens `relative`, which must stay below `folder` on every component and pass no symbolic link: names from an
  /// untrusted file (openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), a walk with O_NOFOLLOW where the kernel lacks it).
  static Result<File> openBeneath(const std::string &folder, const std::string &relative);

  /// Bytes when it was opened.
  int64_t size() const { return bytes; }
  const std::string &path() const { return name; }
  bool isOpen() const { return fd >= 0; }
  /// Reads exactly `count` bytes from `offset`. Allocates only on failure. Errors: badInput out of bounds, io.
  Status readAt(void *destination, int64_t count, int64_t offset) const;
  /// From now on readInto goes past the page cache (O_DIRECT), where the file system can.
  void openDirect();
  /// Reads as readAt to `page` + `offset` % 4096. `page` begins a page and has room for `count` and two pages more.
  Status readInto(char *page, int64_t count, int64_t offset) const;

private:
  static Result<File> adopt(int fd, const std::string &path);
  Status check(int64_t count, int64_t offset) const;
  Status readAll(char *cursor, int64_t count, int64_t offset) const;
  int fd = -1;
  int direct = -1; ///< the same file with O_DIRECT; -1: not used
  int64_t bytes = 0;
  std::string name;
};

/// XXH3-64 of the whole file or of bytes [offset, offset + count), streamed.
Result<uint64_t> hashOf(const File &file);
Result<uint64_t> hashOf(const File &file, int64_t offset, int64_t count);

/// Tells a changed file: its XXH3-64, or, beyond 4 GiB, that of its size and of 4096 blocks of 64 KiB spread over it.
Result<uint64_t> fingerprintOf(const File &file);

/// The same of bytes [offset, offset + count), in parts beyond 64 MiB already: quick enough for every start.
Result<uint64_t> fingerprintOf(const File &file, int64_t offset, int64_t count);

/// A file that appears under its name complete or not at all.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  /// Unlinks the temporary unless committed.
  ~OutputFile();

  /// Creates `path`.tmp-<pid>-<n> beside it. Errors: io.
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
  /// fsync, rename onto the target, fsync of the folder.
  Status commit();
  int64_t size() const { return position; }

private:
  void abandon();
  int createTemporary();
  const std::string &name() const { return target.empty() ? temporary : target; }
  void openDirect();
  Status writeAll(int to, const char *data, int64_t count, int64_t offset);
  int fd = -1;
  int direct = -1;        ///< the same file with O_DIRECT; -1: not used
  int64_t blockBytes = 0; ///< what such transfers are multiples of
  int64_t position = 0;
  std::string target, temporary; ///< `target` is empty where the file is another process's
};

/// Is `name`, without folders, what OutputFile::create leaves when its process is killed?
bool isLeftover(std::string_view name);
/// Copies `from` whole into `to` (both still open afterwards).
Status copyInto(OutputFile &to, const File &from);
/// Makes the folder and its parents. Errors: io.
Status makeFolder(const std::string &path);
/// A file can be created in `folder` (tried, so that quotas, permissions and read-only mounts count). Errors: io.
Status checkWritable(const std::string &folder);
/// Puts `from`, on disk already, in the place of `to`, and brings the folder to disk. Errors: io.
Status renameInto(const std::string &from, const std::string &to);
/// fsync of a folder, so that renames in it are on disk.
Status syncFolder(const std::string &folder);
/// Folder of `path`, "." when it has none; and the name within it.
std::string folderOf(const std::string &path);
std::string fileNameOf(const std::string &path);

} // namespace zc::io
