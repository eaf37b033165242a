#include "runtime/io/File.h"

#include "base/Blocking.h"
#include "runtime/io/Hash.h"
#include "runtime/io/Transfer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace zc::io {

static ssize_t readOnce(int fd, char *to, int64_t count, int64_t offset) {
  return moved("file.read", count, [&](size_t now, bool flips) {
    ssize_t got = ::pread(fd, to, now, offset);
    if (flips && got > 0)
      to[got / 2] = char(to[got / 2] ^ 4);
    return got;
  });
}

std::string reasonOf(int errnum) {
  std::string why = std::generic_category().message(errnum);
  if (!why.empty() && why[0] >= 'A' && why[0] <= 'Z')
    why[0] = char(why[0] - 'A' + 'a');
  return why;
}

Error errnoError(Code code, int number, const std::string &doing, const std::string &path, int errnum) {
  return makeError(code, number, doing + " \"" + path + "\": " + reasonOf(errnum));
}

Result<File> File::adopt(Descriptor fd, const std::string &path) {
  File file;
  file.fd = std::move(fd);
  file.name = path;
  struct stat info;
  int errnum = injected("file.stat");
  if (errnum == 0 && ::fstat(file.fd.get(), &info) != 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 801, "cannot examine", path, errnum);
  if (!S_ISREG(info.st_mode))
    return makeError(Code::badInput, 802, "\"" + path + "\" is not a regular file");
  file.bytes = info.st_size;
  file.links = info.st_nlink;
  return file;
}

Result<File> File::open(const std::string &path) {
  if (path.find('\0') != std::string::npos)
    return makeError(Code::badInput, 803, "a file name contains a zero byte", path);
  Blocking here("opening", path);
  if (int errnum = injected("file.open"))
    return errnoError(Code::badInput, 804, "cannot open", path, errnum);
  // Non-blocking, or opening a pipe would wait for its writer.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.isOpen())
    return errnoError(Code::badInput, 804, "cannot open", path, errno);
  return adopt(std::move(fd), path);
}

Status File::check(int64_t count, int64_t offset) const {
  if (count < 0 || offset < 0 || offset > bytes || count > bytes - offset)
    return makeError(Code::badInput, 805,
                     "\"" + name + "\" has " + std::to_string(bytes) + " bytes, but " + std::to_string(count) +
                         " at offset " + std::to_string(offset) + " are needed");
  return Status::success();
}

void File::openDirect() { // by the descriptor: what its name leads to may be another file by now
  direct = Descriptor(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
}

Status File::readInto(char *page, int64_t count, int64_t offset) const {
  if (!direct.isOpen() || count < kDirectFrom)
    return readAt(page + offset % kPage, count, offset);
  ZC_RETURN_IF_ERROR(check(count, offset));
  int64_t begin = offset / kPage * kPage, end = (offset + count + kPage - 1) / kPage * kPage, at = begin;
  while (at < offset + count) {
    Blocking here("reading", name);
    ssize_t got = readOnce(direct.get(), page + (at - begin), end - at, at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EINVAL) // not on this file system after all
      return readAll(page + offset % kPage, count, offset);
    if (got < 0)
      return errnoError(Code::io, 806, "cannot read", name, errno);
    at += got;
    if (got % kPage != 0 || got == 0) // where the file ends, or a transfer that was cut short
      break;
  }
  at = std::max(at, offset);
  return readAll(page + (at - begin), offset + count - at, at);
}

Status File::readAt(void *destination, int64_t count, int64_t offset) const {
  ZC_RETURN_IF_ERROR(check(count, offset));
  return readAll(static_cast<char *>(destination), count, offset);
}

Status File::readAll(char *cursor, int64_t count, int64_t offset) const {
  while (count > 0) {
    Blocking here("reading", name);
    ssize_t got = readOnce(fd.get(), cursor, count, offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return errnoError(Code::io, 806, "cannot read", name, errno);
    if (got == 0)
      return makeError(Code::io, 807, "\"" + name + "\" became shorter while it was read");
    cursor += got;
    offset += got;
    count -= got;
  }
  return Status::success();
}

Result<uint64_t> hashOf(const File &file) { return hashOf(file, 0, file.size()); }

Result<uint64_t> hashOf(const File &file, int64_t offset, int64_t count) {
  Hasher hash;
  std::vector<char> buffer(size_t(std::min(count, kChunk)));
  for (int64_t done = 0; done < count; done += kChunk) {
    int64_t now = std::min(kChunk, count - done);
    ZC_RETURN_IF_ERROR(file.readAt(buffer.data(), now, offset + done));
    hash.add(buffer.data(), now);
  }
  return hash.value();
}

static Result<uint64_t> hashOfParts(const File &file, int64_t offset, int64_t size, int64_t blocks) {
  constexpr int64_t blockBytes = 65536;
  Hasher hash;
  hash.add(&size, sizeof size);
  std::vector<char> buffer(blockBytes);
  for (int64_t k = 0; k < blocks; ++k) { // the first block begins the file, the last one ends it
    int64_t last = size - blockBytes, at = k + 1 < blocks ? last / (blocks - 1) * k : last;
    ZC_RETURN_IF_ERROR(file.readAt(buffer.data(), blockBytes, offset + at));
    hash.add(buffer.data(), blockBytes);
  }
  return hash.value();
}

Result<uint64_t> fingerprintOf(const File &file) {
  return file.size() <= int64_t(4) << 30 ? hashOf(file) : hashOfParts(file, 0, file.size(), 4096);
}

Result<uint64_t> fingerprintOf(const File &file, int64_t offset, int64_t count) {
  return count <= int64_t(64) << 20 ? hashOf(file, offset, count) : hashOfParts(file, offset, count, 512);
}

} // namespace zc::io
