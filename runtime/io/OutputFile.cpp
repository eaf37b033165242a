#include "runtime/io/OutputFile.h"

#include "base/Blocking.h"
#include "runtime/io/Folder.h"
#include "runtime/io/Transfer.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace zc::io {

static ssize_t writeOnce(int fd, const char *from, int64_t count, int64_t offset) {
  return moved("file.write", count, [&](size_t now, bool) { return ::pwrite(fd, from, now, offset); });
}

/// What this one has not committed goes with `other`.
OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(direct, other.direct);
  std::swap(blockBytes, other.blockBytes);
  std::swap(position, other.position);
  std::swap(target, other.target);
  std::swap(temporary, other.temporary);
  return *this;
}

OutputFile::~OutputFile() {
  if (!fd.isOpen() || target.empty())
    return;
  fd.close(); // first: NFS keeps an open file, under another name
  ::unlink(temporary.c_str());
}

/// Several threads and processes write into neighbouring blocks of the file, some of them through the page cache: what
/// goes past it is whole blocks of the file system, so that nobody writes back an older one.
void OutputFile::openDirect() {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0 || info.st_blksize < kPage || info.st_blksize > kDirectFrom ||
      (info.st_blksize & (info.st_blksize - 1)) != 0)
    return;
  blockBytes = info.st_blksize;
  direct = Descriptor(::open(temporary.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW));
}

bool isTemporary(std::string_view name) {
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

/// A leftover, locked; not open where it is none.
static Descriptor lockedLeftover(const std::string &path) {
  struct stat info = {};
  if (!isTemporary(fileNameOf(path)) || ::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return {};
  Blocking here("opening", path);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file.isOpen() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(file) : Descriptor();
}

bool isLeftover(const std::string &path) { return lockedLeftover(path).isOpen(); }

/// The lock is held until it is gone: who has just created it, and not locked it yet, finds it locked, or gone.
void removeLeftover(const std::string &path) {
  if (Descriptor held = lockedLeftover(path); held.isOpen())
    ::unlink(path.c_str());
}

/// errno, 0: it is open.
int OutputFile::createTemporary() {
  if (int errnum = injected("file.create"))
    return errnum;
  fd = Descriptor(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd.isOpen())
    return errno;
  // For removeLeftover, which may have taken it away in between. File systems that know no locks have no runs in them.
  struct stat info = {};
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return EEXIST;
  return ::fstat(fd.get(), &info) == 0 && info.st_nlink == 0 ? EEXIST : 0;
}

/// The descriptor that /dev/stdout, /dev/fd/3 or another link through /proc means. A rename would put a file in the
/// place of the link, which of /dev/stdout is everybody's.
static std::optional<int> descriptorOf(std::filesystem::path path) {
  Blocking here("opening", path.native());
  const std::string own = "/proc/" + std::to_string(::getpid()) + "/fd";
  std::error_code failure;
  for (int depth = 0; depth < 40 && std::filesystem::is_symlink(path, failure); ++depth) {
    const auto folder = std::filesystem::canonical(path.has_parent_path() ? path.parent_path() : ".", failure);
    if (failure)
      return std::nullopt;
    if (folder == own)
      return std::atoi(path.filename().c_str());
    path = folder / std::filesystem::read_symlink(path, failure);
  }
  return std::nullopt;
}

/// `path` with a longer name, of which the beginning is left where else it would be too long; no letter of UTF-8 is
/// cut.
static std::string besideOf(const std::string &path, const std::string &suffix) {
  std::string name = fileNameOf(path);
  const size_t room = NAME_MAX - suffix.size();
  if (name.size() > room) {
    size_t end = room;
    while (end > 1 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80)
      --end;
    name.resize(end);
  }
  return path.substr(0, path.size() - fileNameOf(path).size()) + name + suffix;
}

bool isTemporaryOf(const std::string &path, const std::string &temporary) {
  const std::string name = fileNameOf(temporary);
  return isTemporary(name) && fileNameOf(besideOf(path, name.substr(name.rfind(".tmp-")))) == name;
}

/// What killed processes left of `path`. Where the folder cannot be read, it stays.
static void removeLeftovers(const std::string &path) {
  Blocking here("listing", folderOf(path));
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folderOf(path), failure), end; !failure && entry != end;
       entry.increment(failure))
    if (isTemporaryOf(path, entry->path()))
      removeLeftover(entry->path());
}

Result<OutputFile> OutputFile::create(const std::string &path) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return makeError(Code::usage, 810, "\"" + path + "\" is no file name");
  if (descriptorOf(path))
    return makeError(Code::io, 837, "\"" + path + "\" is open already, and would be replaced", "",
                     "name the file itself");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return makeError(Code::io, 811, "\"" + path + "\" is a directory");
  // The rename at the end would put a regular file in its place.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return makeError(Code::io, 825, "\"" + path + "\" is not a regular file");
  if (fileNameOf(path).size() > NAME_MAX)
    return errnoError(Code::io, 812, "cannot create", path, ENAMETOOLONG);
  removeLeftovers(path);
  OutputFile file;
  file.target = path;
  for (int attempt = 0; attempt < 100; ++attempt) {
    file.temporary = besideOf(path, ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt));
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
  if (!direct.isOpen() || count < kDirectFrom || !isAlike)
    return writeAll(fd.get(), cursor, count, offset);
  int64_t begin = (offset + blockBytes - 1) / blockBytes * blockBytes, end = (offset + count) / blockBytes * blockBytes;
  ZC_RETURN_IF_ERROR(writeAll(fd.get(), cursor, begin - offset, offset));
  ZC_RETURN_IF_ERROR(writeAll(direct.get(), cursor + (begin - offset), end - begin, begin));
  return writeAll(fd.get(), cursor + (end - offset), offset + count - end, end);
}

Status OutputFile::writeAll(int to, const char *cursor, int64_t count, int64_t offset) {
  while (count > 0) {
    Blocking here("writing", name());
    ssize_t put = writeOnce(to, cursor, count, offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (to == direct.get() && put < 0 && errno == EINVAL) { // not on this file system after all
      to = fd.get();
      continue;
    }
    if (put <= 0)
      return errnoError(Code::io, 813, "cannot write", name(), put == 0 ? ENOSPC : errno);
    cursor += put;
    offset += put;
    count -= put;
    if (put % kPage != 0) // the rest of a block
      to = fd.get();
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
    do {
      errnum = injected("file.allocate");
      if (errnum == 0)
        errnum = ::posix_fallocate(fd.get(), at, std::min(kAtOnce, count - at));
    } while (errnum == EINTR);
  }
  if (errnum == EINVAL || errnum == EOPNOTSUPP) // not on this file system
    errnum = ::ftruncate(fd.get(), count) == 0 ? 0 : errno;
  if (errnum != 0)
    return errnoError(Code::io, 813, "cannot write", name(), errnum);
  position = count;
  return Status::success();
}

Result<OutputFile> OutputFile::join(const std::string &temporaryName) {
  OutputFile file;
  file.temporary = temporaryName;
  Blocking here("opening", temporaryName);
  if (int errnum = injected("file.open"))
    return errnoError(Code::io, 826, "cannot open", temporaryName, errnum);
  file.fd = Descriptor(::open(temporaryName.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.fd.isOpen())
    return errnoError(Code::io, 826, "cannot open", temporaryName, errno);
  file.openDirect();
  return file;
}

Status OutputFile::flush() {
  int errnum = 0;
  struct stat info;
  int64_t size = ::fstat(fd.get(), &info) == 0 ? info.st_size : 0;
  // Range by range first: what takes long because it is much is told from what hangs. Errors count, fsync may not tell
  // them again; file systems that cannot do it say EINVAL or the like.
  for (unsigned how : {SYNC_FILE_RANGE_WRITE, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER})
    for (int64_t at = 0; errnum == 0 && at < size; at += kAtOnce) {
      Blocking here(kToDisk, name());
      errnum = injected("file.writeback");
      if (errnum == 0 && ::sync_file_range(fd.get(), at, kAtOnce, how) != 0 &&
          (errno == EIO || errno == ENOSPC || errno == EDQUOT))
        errnum = errno;
    }
  Blocking here(kToDisk, name());
  if (errnum == 0)
    errnum = injected("file.fsync");
  if (errnum == 0 && ::fsync(fd.get()) != 0)
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
  if ((errnum = fd.close()) == 0)
    errnum = injected("file.close");
  if (errnum != 0)
    return errnoError(Code::io, 816, "cannot close", target, errnum);
  return syncFolder(folderOf(target));
}

int writeOn(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::write(fd, bytes.data(), std::min(bytes.size(), size_t(kAtOnce)));
    pollfd room = {fd, POLLOUT, 0};
    if (put < 0 && (errno == EINTR || (errno == EAGAIN && (::poll(&room, 1, -1) > 0 || errno == EINTR))))
      continue;
    if (put <= 0)
      return put == 0 ? ENOSPC : errno;
    bytes.remove_prefix(size_t(put));
  }
  return 0;
}

static Status toStatus(int errnum, const std::string &path) {
  return errnum == 0 ? Status::success() : errnoError(Code::io, 813, "cannot write", path, errnum);
}

/// Never replaced: root's "-o /dev/null" must not end it.
static Status writeToSpecialFile(const std::string &path, std::string_view bytes) {
  Blocking here("writing", path);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.isOpen())
    return errnoError(Code::io, 826, "cannot open", path, errno);
  return toStatus(writeOn(file.get(), bytes), path);
}

Status writeToStdout(std::string_view text) {
  int errnum = writeOn(STDOUT_FILENO, text);
  return toStatus(errnum == EPIPE ? 0 : errnum, "stdout");
}

static bool isSpecialFile(const std::string &path) {
  Blocking here("opening", path);
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

Status writeFileAtomically(const std::string &path, std::string_view bytes) {
  if (isSpecialFile(path))
    return writeToSpecialFile(path, bytes);
  if (auto fd = descriptorOf(path))
    return toStatus(writeOn(*fd, bytes), path);
  return replaceFile(path, bytes);
}

Status replaceFile(const std::string &path, std::string_view bytes) {
  auto file = OutputFile::create(path);
  if (!file)
    return file.error();
  ZC_RETURN_IF_ERROR(file->write(bytes.data(), int64_t(bytes.size())));
  return file->commit();
}

Status checkReplaceable(const std::string &path) {
  return isSpecialFile(path) || descriptorOf(path) ? Status::success() : OutputFile::create(path).status();
}

Status copyInto(OutputFile &to, const File &from) {
  std::vector<char> buffer(size_t(std::min(from.size(), kChunk)));
  for (int64_t at = 0; at < from.size(); at += kChunk) {
    int64_t count = std::min(kChunk, from.size() - at);
    ZC_RETURN_IF_ERROR(from.readAt(buffer.data(), count, at));
    ZC_RETURN_IF_ERROR(to.write(buffer.data(), count));
  }
  return Status::success();
}

Status checkWritable(const std::string &folder) {
  auto probe = OutputFile::create(folder + "/probe");
  if (!probe)
    return probe.error();
  return probe->write("x", 1);
}

} // namespace zc::io
