//===- Beneath.cpp - opening a file whose name an untrusted file gave ----------===//
//
// External data of ONNX has a history of escapes: "..", absolute names, symbolic links in the name or in a parent
// (CVE-2022-25882, CVE-2024-27318, CVE-2026-27489). The kernel's own resolver decides; glibc 2.36 has no wrapper for
// it.
//
//===----------------------------------------------------------------------===//
#include "base/Blocking.h"
#include "base/Failpoint.h"
#include "runtime/io/File.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace zc::io {

static constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;

/// Component by component, for kernels before 5.6 and sandboxes that forbid openat2. Sets errno.
static Descriptor walk(int folder, const std::string &relative) {
  Descriptor at(::dup(folder));
  size_t start = 0;
  while (at.isOpen()) {
    size_t slash = relative.find('/', start);
    std::string part = relative.substr(start, slash == std::string::npos ? slash : slash - start);
    bool last = slash == std::string::npos;
    if (part == "..") {
      errno = EXDEV;
      break;
    }
    Descriptor next(::openat(at.get(), part.empty() ? "." : part.c_str(), last ? kFlags : kFlags | O_DIRECTORY));
    if (last)
      return next;
    at = std::move(next);
    start = slash + 1;
  }
  return {};
}

static Descriptor openUnder(int folder, const std::string &relative) {
  struct open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = ::syscall(SYS_openat2, folder, relative.c_str(), &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM))
    return walk(folder, relative);
  return Descriptor(int(fd));
}

Result<File> File::openBeneath(const std::string &folder, const std::string &relative) {
  if (relative.empty() || relative.size() > 4096 || relative[0] == '/' || relative.find('\0') != std::string::npos)
    return makeError(Code::badInput, 820,
                     "\"" + relative.substr(0, 200) + "\" is no file name below the model's folder");
  Blocking here("opening", folder + "/" + relative);
  if (auto fault = failpoint("file.open"); fault && fault->kind == FaultAction::Kind::error)
    return errnoError(Code::badInput, 823, "cannot open", folder + "/" + relative, fault->errnum);
  Descriptor at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at.isOpen())
    return errnoError(Code::badInput, 821, "cannot open folder", folder, errno);
  Descriptor fd = openUnder(at.get(), relative);
  int why = errno;
  if (!fd.isOpen() && (why == EXDEV || why == ELOOP))
    return makeError(Code::badInput, 822, "\"" + relative + "\" leaves the model's folder or passes a symbolic link",
                     folder);
  if (!fd.isOpen())
    return errnoError(Code::badInput, 823, "cannot open", folder + "/" + relative, why);
  return adopt(std::move(fd), folder + "/" + relative);
}

} // namespace zc::io
