#include "runtime/io/Folder.h"

#include "base/Blocking.h"
#include "base/Descriptor.h"
#include "runtime/io/File.h"
#include "runtime/io/Transfer.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace zc::io {

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

std::string withoutSlash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/')
    folder.pop_back();
  return folder;
}

Status makeFolder(const std::string &path) {
  Blocking here("making folder", path);
  std::error_code failure(injected("folder.make"), std::generic_category());
  for (int left = 10; !failure && left > 0; --left) {
    std::filesystem::create_directories(path, failure);
    if (failure.value() != ENOENT)
      break;
    if (left > 1) // another process may have taken an empty one away meanwhile
      failure.clear();
  }
  if (std::error_code ignored; failure && std::filesystem::is_symlink(path, ignored))
    return makeError(Code::io, 818, "cannot make folder \"" + path + "\": it is a symbolic link to what is not there");
  if (failure)
    return errnoError(Code::io, 817, "cannot make folder", path, failure.value());
  if (!std::filesystem::is_directory(path, failure))
    return errnoError(Code::io, 817, "cannot make folder", path, ENOTDIR);
  return Status::success();
}

Status renameInto(const std::string &from, const std::string &to) {
  Blocking here("putting in place", to);
  int errnum = injected("folder.rename");
  if (errnum == 0 && ::rename(from.c_str(), to.c_str()) != 0)
    errnum = errno;
  if (errnum != 0)
    return errnoError(Code::io, 824, "cannot put in place", to, errnum);
  return syncFolder(folderOf(to));
}

Status syncFolder(const std::string &folder) {
  Blocking here(kToDisk, folder);
  if (int errnum = injected("folder.open"))
    return errnoError(Code::io, 819, "cannot open folder", folder, errnum);
  Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.isOpen())
    return errnoError(Code::io, 819, "cannot open folder", folder, errno);
  int errnum = injected("folder.fsync");
  if (errnum == 0 && ::fsync(fd.get()) != 0)
    errnum = errno;
  // Some file systems have no fsync for folders; that is not the user's fault.
  if (errnum != 0 && errnum != EINVAL)
    return errnoError(Code::io, 827, "cannot bring to disk", folder, errnum);
  return Status::success();
}

} // namespace zc::io
