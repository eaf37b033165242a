//===- File.h - files that are read with every result checked ------------------===//
//
// Regular files only, opened without blocking, read with pread. A short read inside the expected range is an
// error (the file shrank), an interrupted one is resumed. Never mmap: a file that somebody else truncates would kill
// the process.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Descriptor.h"
#include "base/Status.h"

#include <cstdint>
#include <string>

namespace zc::io {

/// "no space left on device"
std::string reasonOf(int errnum);
/// Error of a failed system call: code, "cannot write \"path\": no space left on device".
Error errnoError(Code code, int number, const std::string &doing, const std::string &path, int errnum);

/// A regular file opened for reading.
class File {
public:
  /// Errors: badInput when it does not exist, may not be read or is not a regular file.
  static Result<File> open(const std::string &path);
  /// Opens `relative`, which must stay below `folder` on every component and pass no symbolic link: names from an
  /// untrusted file (openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), a walk with O_NOFOLLOW where the kernel lacks it).
  static Result<File> openBeneath(const std::string &folder, const std::string &relative);

  /// Bytes when it was opened.
  int64_t size() const { return bytes; }
  /// Names that it had then; with more than one it is a file of somewhere else as well.
  uint64_t hardLinks() const { return links; }
  const std::string &path() const { return name; }
  bool isOpen() const { return fd.isOpen(); }
  /// Reads exactly `count` bytes from `offset`. Allocates only on failure. Errors: badInput out of bounds, io.
  Status readAt(void *destination, int64_t count, int64_t offset) const;
  /// From now on readInto goes past the page cache (O_DIRECT), where the file system can.
  void openDirect();
  /// Reads as readAt to `page` + `offset` % 4096. `page` begins a page and has room for `count` and two pages more.
  Status readInto(char *page, int64_t count, int64_t offset) const;

private:
  static Result<File> adopt(Descriptor fd, const std::string &path);
  Status check(int64_t count, int64_t offset) const;
  Status readAll(char *cursor, int64_t count, int64_t offset) const;
  Descriptor fd;
  Descriptor direct; ///< the same file with O_DIRECT; not open: not used
  int64_t bytes = 0;
  uint64_t links = 0;
  std::string name;
};

/// XXH3-64 of the whole file or of bytes [offset, offset + count), streamed.
Result<uint64_t> hashOf(const File &file);
Result<uint64_t> hashOf(const File &file, int64_t offset, int64_t count);

/// Tells a changed file: its XXH3-64, or, beyond 4 GiB, that of its size and of 4096 blocks of 64 KiB spread over it.
Result<uint64_t> fingerprintOf(const File &file);

/// The same of bytes [offset, offset + count), in parts beyond 64 MiB already: quick enough for every start.
Result<uint64_t> fingerprintOf(const File &file, int64_t offset, int64_t count);

} // namespace zc::io
