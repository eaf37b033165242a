#include "runtime/base/File.h"

#include "runtime/base/Blocking.h"
#include "runtime/base/Descriptor.h"
#include "runtime/base/Failpoint.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace zc {

namespace {

Error inputError(const std::string &path, int number, const std::string &reason) {
  return makeError(Code::badInput, number, "cannot read \"" + path + "\": " + reason, path);
}

Error outputError(const std::string &path, const char *action, int error) {
  return makeError(Code::io, 191, "cannot " + std::string(action) + " \"" + path + "\": " + std::strerror(error), path);
}

/// Whether a failpoint wants this call to fail; errno says with what.
bool isToFail(const char *site) {
  std::optional<FaultAction> fault = failpoint(site);
  if (!fault || fault->kind != FaultAction::Kind::error)
    return false;
  errno = fault->errnum;
  return true;
}

bool writeAll(int fd, std::string_view bytes) {
  constexpr size_t kChunk = size_t(1) << 30; // Linux takes at most 2 GiB - 4 KiB at once
  while (!bytes.empty()) {
    ssize_t n = isToFail("whole.write") ? -1 : ::write(fd, bytes.data(), std::min(bytes.size(), kChunk));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

} // namespace

Result<std::string> readFile(const std::string &path, uint64_t cap) {
  Blocking here("reading", path);
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  Descriptor file(isToFail("whole.open") ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.isOpen())
    return inputError(path, 190, std::strerror(errno));
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0)
    return inputError(path, 190, std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return inputError(path, 192, S_ISDIR(info.st_mode) ? "it is a directory" : "it is not a regular file");
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size > cap)
    return inputError(path, 193,
                      "it has " + std::to_string(size) + " bytes, at most " + std::to_string(cap) + " are allowed");
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    ssize_t n = isToFail("whole.read") ? -1 : ::read(file.get(), bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return makeError(Code::io, 194, "cannot read \"" + path + "\": " + std::strerror(errno), path);
    if (n == 0)
      break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

/// A device, a FIFO or a socket is written to, never replaced: root's "-o /dev/null" must not end it.
static Status writeToSpecialFile(const std::string &path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.isOpen() || !writeAll(file.get(), bytes))
    return outputError(path, "write", errno);
  return {};
}

bool isLeftover(std::string_view name) {
  constexpr std::string_view mark = ".tmp.";
  size_t at = name.rfind(mark);
  if (at == std::string_view::npos || at == 0)
    return false;
  std::string_view numbers = name.substr(at + mark.size());
  size_t dot = numbers.find('.');
  auto isNumber = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dot != std::string_view::npos && isNumber(numbers.substr(0, dot)) && isNumber(numbers.substr(dot + 1));
}

Status writeFileAtomically(const std::string &path, std::string_view bytes) {
  Blocking here("writing", path);
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
    return writeToSpecialFile(path, bytes);
  static std::atomic<unsigned> counter{0};
  std::string temporary = path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1));
  Descriptor file(isToFail("whole.create") ? -1
                                           : ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.isOpen())
    return outputError(path, "write", errno);
  auto fail = [&](const char *action) {
    int error = errno;
    ::unlink(temporary.c_str());
    return outputError(path, action, error);
  };
  if (!writeAll(file.get(), bytes))
    return fail("write");
  if (isToFail("whole.fsync") || ::fsync(file.get()) != 0 || file.close() != 0)
    return fail("flush");
  if (isToFail("whole.rename") || ::rename(temporary.c_str(), path.c_str()) != 0)
    return fail("replace");
  Descriptor folder(::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems refuse fsync on a folder (EINVAL); the content itself is safe already.
  if (folder.get() >= 0 && ::fsync(folder.get()) != 0 && errno != EINVAL)
    return outputError(path, "flush the folder of", errno);
  return {};
}

} // namespace zc
