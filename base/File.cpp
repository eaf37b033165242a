#include "base/File.h"

#include "base/Blocking.h"
#include "base/Descriptor.h"
#include "base/Failpoint.h"

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

/// Whether a failpoint wants this call to fail; errno says with what.
bool isToFail(const char *site) {
  std::optional<FaultAction> fault = failpoint(site);
  if (!fault || fault->kind != FaultAction::Kind::error)
    return false;
  errno = fault->errnum;
  return true;
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

} // namespace zc
