#include "runtime/io/File.h"

#include "runtime/base/Blocking.h"
#include "runtime/base/Failpoint.h"
#include "runtime/io/Hash.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace zc::io {

static constexpr int64_t kChunk = 1 << 20;
/// What one call of the system may be asked to move: each has its own deadline.
static constexpr int64_t kAtOnce = 64 << 20;
static constexpr const char *kToDisk = "bringing to disk";
/// What the addresses of transfers past the page cache are multiples of, and how much is worth one.
static constexpr int64_t kPage = 4096, kDirectFrom = 256 << 10;

/// What a failpoint wants this place to fail with; 0: nothing.
static int injected(const char *site) {
  std::optional<FaultAction> fault = failpoint(site);
  return fault && fault->kind == FaultAction::Kind::error ? fault->errnum : 0;
}

/// pread or pwrite of at most kAtOnce bytes, with what the failpoint `site` makes of it: an error, fewer bytes, a bit
/// that is another.
template <typename Call> static ssize_t moved(const char *site, int64_t count, Call call) {
  std::optional<FaultAction> fault = failpoint(site);
  if (fault && fault->kind == FaultAction::Kind::error) {
    errno = fault->errnum;
    return -1;
  }
  bool isShort = fault && fault->kind == FaultAction::Kind::shorten;
  count = std::min(count, kAtOnce);
  return call(size_t(isShort ? (count + 1) / 2 : count), fault && fault->kind == FaultAction::Kind::flip);
}

static ssize_t readOnce(int fd, char *to, int64_t count, int64_t offset) {
  return moved("file.read", count, [&](size_t now, bool flips) {
    ssize_t got = ::pread(fd, to, now, offset);
    if (flips && got > 0)
      to[got / 2] = char(to[got / 2] ^ 4);
    return got;
  });
}

static ssize_t writeOnce(int fd, const char *from, int64_t count, int64_t offset) {
  return moved("file.write", count, [&](size_t now, bool) { return ::pwrite(fd, from, now, offset); });
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

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string fileNameOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

//===- File ----------------------------------------------------------------===//

File::File(File &&other) noexcept
    : fd(other.fd), direct(other.direct), bytes(other.bytes), name(std::move(other.name)) {
  other.fd = other.direct = -1;
}

File &File::operator=(File &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(direct, other.direct);
  std::swap(bytes, other.bytes);
  std::swap(name, other.name);
  return *this;
}

File::~File() {
  for (int each : {fd, direct})
    if (each >= 0)
      ::close(each);
}

Result<File> File::adopt(int fd, const std::string &path) {
  File file;
  file.fd = fd;
  file.name = path;
  struct stat info;
  int errnum = injected("file.stat");
  if (errnum == 0 && ::fstat(fd, &info) != 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 801, "cannot examine", path, errnum);
  if (!S_ISREG(info.st_mode))
    return makeError(Code::badInput, 802, "\"" + path + "\" is not a regular file");
  file.bytes = info.st_size;
  return file;
}

Result<File> File::open(const std::string &path) {
  if (path.find('\0') != std::string::npos)
    return makeError(Code::badInput, 803, "a file name contains a zero byte", path);
  Blocking here("opening", path);
  if (int errnum = injected("file.open"))
    return errnoError(Code::badInput, 804, "cannot open", path, errnum);
  // Non-blocking, or opening a pipe would wait for its writer.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return errnoError(Code::badInput, 804, "cannot open", path, errno);
  return adopt(fd, path);
}

Status File::check(int64_t count, int64_t offset) const {
  if (count < 0 || offset < 0 || offset > bytes || count > bytes - offset)
    return makeError(Code::badInput, 805,
                     "\"" + name + "\" has " + std::to_string(bytes) + " bytes, but " + std::to_string(count) +
                         " at offset " + std::to_string(offset) + " are needed");
  return Status::success();
}

void File::openDirect() { // by the descriptor: what its name leads to may be another file by now
  direct = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
}

Status File::readInto(char *page, int64_t count, int64_t offset) const {
  if (direct < 0 || count < kDirectFrom)
    return readAt(page + offset % kPage, count, offset);
  ZC_RETURN_IF_ERROR(check(count, offset));
  int64_t begin = offset / kPage * kPage, end = (offset + count + kPage - 1) / kPage * kPage, at = begin;
  while (at < offset + count) {
    Blocking here("reading", name);
    ssize_t got = readOnce(direct, page + (at - begin), end - at, at);
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
    ssize_t got = readOnce(fd, cursor, count, offset);
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
    ZC_RETURN_IF_ERROR(file.readAt(buffer.data(), blockBytes, offset + (size - blockBytes) / (blocks - 1) * k));
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

//===- OutputFile ------------------------------------------------------------===//

OutputFile::OutputFile(OutputFile &&other) noexcept
    : fd(other.fd), direct(other.direct), blockBytes(other.blockBytes), position(other.position),
      target(std::move(other.target)), temporary(std::move(other.temporary)) {
  other.fd = other.direct = -1;
}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(direct, other.direct);
  std::swap(blockBytes, other.blockBytes);
  std::swap(position, other.position);
  std::swap(target, other.target);
  std::swap(temporary, other.temporary);
  return *this;
}

OutputFile::~OutputFile() { abandon(); }

void OutputFile::abandon() {
  if (direct >= 0)
    ::close(direct);
  direct = -1;
  if (fd < 0)
    return;
  ::close(fd);
  if (!target.empty())
    ::unlink(temporary.c_str());
  fd = -1;
}

/// Several threads and processes write into neighbouring blocks of the file, some of them through the page cache: what
/// goes past it is whole blocks of the file system, so that nobody writes back an older one.
void OutputFile::openDirect() {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_blksize < kPage || info.st_blksize > kDirectFrom ||
      (info.st_blksize & (info.st_blksize - 1)) != 0)
    return;
  blockBytes = info.st_blksize;
  direct = ::open(temporary.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
}

bool isLeftover(std::string_view name) {
  constexpr std::string_view mark = ".tmp-";
  size_t at = name.rfind(mark);
  std::string_view numbers = name.substr(at == std::string_view::npos ? name.size() : at + mark.size());
  size_t dash = numbers.find('-');
  auto isNumber = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return at != 0 && dash != std::string_view::npos && isNumber(numbers.substr(0, dash)) &&
         isNumber(numbers.substr(dash + 1));
}

/// errno, 0: it is open.
int OutputFile::createTemporary() {
  if (int errnum = injected("file.create"))
    return errnum;
  fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  return fd >= 0 ? 0 : errno;
}

Result<OutputFile> OutputFile::create(const std::string &path) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return makeError(Code::usage, 810, "\"" + path + "\" is no file name");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return makeError(Code::io, 811, "\"" + path + "\" is a directory");
  // The rename at the end would put a regular file in its place.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return makeError(Code::io, 811, "\"" + path + "\" is not a regular file");
  OutputFile file;
  file.target = path;
  for (int attempt = 0; attempt < 100; ++attempt) {
    file.temporary = path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    Blocking here("creating", path);
    if (int errnum = file.createTemporary(); errnum != EEXIST)
      return errnum == 0 ? Result<OutputFile>(std::move(file))
                         : errnoError(Code::io, 812, "cannot create", path, errnum);
  }
  return errnoError(Code::io, 812, "cannot create", path, EEXIST);
}

Result<OutputFile> OutputFile::createInPlace(const std::string &path) {
  OutputFile file;
  file.temporary = path;
  Blocking here("creating", path);
  if (int errnum = file.createTemporary())
    return errnoError(Code::io, 812, "cannot create", path, errnum);
  file.openDirect();
  return file;
}

Status OutputFile::writeAt(const void *data, int64_t count, int64_t offset) {
  auto *cursor = static_cast<const char *>(data);
  bool isAlike = ((reinterpret_cast<uintptr_t>(data) ^ uintptr_t(offset)) & (kPage - 1)) == 0;
  if (direct < 0 || count < kDirectFrom || !isAlike)
    return writeAll(fd, cursor, count, offset);
  int64_t begin = (offset + blockBytes - 1) / blockBytes * blockBytes, end = (offset + count) / blockBytes * blockBytes;
  ZC_RETURN_IF_ERROR(writeAll(fd, cursor, begin - offset, offset));
  ZC_RETURN_IF_ERROR(writeAll(direct, cursor + (begin - offset), end - begin, begin));
  return writeAll(fd, cursor + (end - offset), offset + count - end, end);
}

Status OutputFile::writeAll(int to, const char *cursor, int64_t count, int64_t offset) {
  while (count > 0) {
    Blocking here("writing", name());
    ssize_t put = writeOnce(to, cursor, count, offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (to == direct && put < 0 && errno == EINVAL) { // not on this file system after all
      to = fd;
      continue;
    }
    if (put <= 0)
      return errnoError(Code::io, 813, "cannot write", name(), put == 0 ? ENOSPC : errno);
    cursor += put;
    offset += put;
    count -= put;
    if (put % kPage != 0) // the rest of a block
      to = fd;
  }
  return Status::success();
}

Status OutputFile::write(const void *data, int64_t count) {
  ZC_RETURN_IF_ERROR(writeAt(data, count, position));
  position += count;
  return Status::success();
}

Status OutputFile::reserve(int64_t count) {
  int errnum = 0;
  for (int64_t at = 0; errnum == 0 && at < count; at += kAtOnce) { // where it is emulated it writes every block
    Blocking here("allocating", name());
    errnum = injected("file.allocate");
    if (errnum == 0)
      errnum = ::posix_fallocate(fd, at, std::min(kAtOnce, count - at));
  }
  if (errnum == EINVAL || errnum == EOPNOTSUPP) // not on this file system
    errnum = ::ftruncate(fd, count) == 0 ? 0 : errno;
  if (errnum != 0)
    return errnoError(Code::io, 813, "cannot write", name(), errnum);
  position = count;
  return Status::success();
}

Result<OutputFile> OutputFile::join(const std::string &temporaryName) {
  OutputFile file;
  file.temporary = temporaryName;
  Blocking here("opening", temporaryName);
  int errnum = injected("file.open");
  if (errnum == 0 && (file.fd = ::open(temporaryName.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)) < 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 812, "cannot open", temporaryName, errnum);
  file.openDirect();
  return file;
}

Status OutputFile::flush() {
  int errnum = 0;
  struct stat info;
  int64_t size = ::fstat(fd, &info) == 0 ? info.st_size : 0;
  // Range by range first: what takes long because it is much is told from what hangs. Errors count, fsync may not tell
  // them again; file systems that cannot do it say EINVAL or the like.
  for (unsigned how : {SYNC_FILE_RANGE_WRITE, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER})
    for (int64_t at = 0; errnum == 0 && at < size; at += kAtOnce) {
      Blocking here(kToDisk, name());
      errnum = injected("file.writeback");
      if (errnum == 0 && ::sync_file_range(fd, at, kAtOnce, how) != 0 &&
          (errno == EIO || errno == ENOSPC || errno == EDQUOT))
        errnum = errno;
    }
  Blocking here(kToDisk, name());
  if (errnum == 0)
    errnum = injected("file.fsync");
  if (errnum == 0 && ::fsync(fd) != 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 814, "cannot bring to disk", name(), errnum);
  return Status::success();
}

Status OutputFile::commit() {
  // After a failure nothing is known of what is on disk; a second try that succeeds would prove nothing.
  ZC_RETURN_IF_ERROR(flush());
  Blocking here("putting in place", target);
  int errnum = injected("file.rename");
  if (errnum == 0 && ::rename(temporary.c_str(), target.c_str()) != 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 815, "cannot put in place", target, errnum);
  int closing = std::exchange(fd, -1);
  errnum = ::close(closing) != 0 ? errno : injected("file.close");
  if (errnum != 0)
    return errnoError(Code::io, 816, "cannot close", target, errnum);
  return syncFolder(folderOf(target));
}

//===- Helpers ---------------------------------------------------------------===//

Status copyInto(OutputFile &to, const File &from) {
  std::vector<char> buffer(size_t(std::min(from.size(), kChunk)));
  for (int64_t at = 0; at < from.size(); at += kChunk) {
    int64_t count = std::min(kChunk, from.size() - at);
    ZC_RETURN_IF_ERROR(from.readAt(buffer.data(), count, at));
    ZC_RETURN_IF_ERROR(to.write(buffer.data(), count));
  }
  return Status::success();
}

Status makeFolder(const std::string &path) {
  Blocking here("making folder", path);
  std::error_code failure(injected("folder.make"), std::generic_category());
  if (!failure)
    std::filesystem::create_directories(path, failure);
  if (std::error_code ignored; failure && std::filesystem::is_symlink(path, ignored))
    return makeError(Code::io, 818, "cannot make folder \"" + path + "\": it is a symbolic link to what is not there");
  if (failure)
    return errnoError(Code::io, 817, "cannot make folder", path, failure.value());
  if (!std::filesystem::is_directory(path, failure))
    return errnoError(Code::io, 817, "cannot make folder", path, ENOTDIR);
  return Status::success();
}

Status checkWritable(const std::string &folder) {
  auto probe = OutputFile::create(folder + "/probe");
  if (!probe)
    return probe.error();
  return probe->write("x", 1);
}

Status renameInto(const std::string &from, const std::string &to) {
  Blocking here("putting in place", to);
  int errnum = injected("folder.rename");
  if (errnum == 0 && ::rename(from.c_str(), to.c_str()) != 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 815, "cannot put in place", to, errnum);
  return syncFolder(folderOf(to));
}

Status syncFolder(const std::string &folder) {
  Blocking here(kToDisk, folder);
  int errnum = injected("folder.open"), fd = -1;
  if (errnum == 0 && (fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 819, "cannot open folder", folder, errnum);
  errnum = injected("folder.fsync");
  if (errnum == 0 && ::fsync(fd) != 0)
    errnum = errno;
  ::close(fd);
  // Some file systems have no fsync for folders; that is not the user's fault.
  if (errnum != 0 && errnum != EINVAL)
    return errnoError(Code::io, 819, "cannot bring to disk", folder, errnum);
  return Status::success();
}

} // namespace zc::io
