//===- Beneath.cpp - opening a file whose name an untrusted file gave ----------===//
//
// External data of ONNX has a history of escapes: "..", absolute names, symbolic links in the name or in a parent
// (CVE-2022-25882, CVE-2024-27318, CVE-2026-27489). The kernel's own resolver decides; glibc 2.36 has no wrapper for
// it.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Blocking.h"
#include "runtime/base/Failpoint.h"
#include "runtime/io/File.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace zc::io {

static constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;

/// Component by component, for kernels before 5.6 and sandboxes that forbid openat2. Sets errno.
static int walk(int folder, const std::string &relative) {
  int at = ::dup(folder);
  size_t start = 0;
  while (at >= 0) {
    size_t slash = relative.find('/', start);
    std::string part = relative.substr(start, slash == std::string::npos ? slash : slash - start);
    bool last = slash == std::string::npos;
    int next = -1;
    if (part == "..")
      errno = EXDEV;
    else
      next = ::openat(at, part.empty() ? "." : part.c_str(), last ? kFlags : kFlags | O_DIRECTORY);
    int why = errno;
    ::close(at);
    errno = why;
    if (last)
      return next;
    at = next;
    start = slash + 1;
  }
  return -1;
}

static int openUnder(int folder, const std::string &relative) {
  struct open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = ::syscall(SYS_openat2, folder, relative.c_str(), &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM))
    return walk(folder, relative);
  return int(fd);
}

Result<File> File::openBeneath(const std::string &folder, const std::string &relative) {
  if (relative.empty() || relative.size() > 4096 || relative[0] == '/' || relative.find('\0') != std::string::npos)
    return makeError(Code::badInput, 820,
                     "\"" + relative.substr(0, 200) + "\" is no file name below the model's folder");
  Blocking here("opening", folder + "/" + relative);
  if (auto fault = failpoint("file.open"); fault && fault->kind == FaultAction::Kind::error)
    return errnoError(Code::badInput, 823, "cannot open", folder + "/" + relative, fault->errnum);
  int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (at < 0)
    return errnoError(Code::badInput, 821, "cannot open folder", folder, errno);
  int fd = openUnder(at, relative);
  int why = errno;
  ::close(at);
  if (fd < 0 && (why == EXDEV || why == ELOOP))
    return makeError(Code::badInput, 822, "\"" + relative + "\" leaves the model's folder or passes a symbolic link",
                     folder);
  if (fd < 0)
    return errnoError(Code::badInput, 823, "cannot open", folder + "/" + relative, why);
  return adopt(fd, folder + "/" + relative);
}

} // namespace zc::io
