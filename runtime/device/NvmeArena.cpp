#include "base/Blocking.h"
#include "base/Failpoint.h"
#include "runtime/device/Nvme.h"
#include "runtime/io/File.h"
#include "runtime/plan/Tiers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zc {

namespace {

int faultOr(const char *site) {
  std::optional<FaultAction> fault = failpoint(site);
  return fault && fault->kind == FaultAction::Kind::error ? fault->errnum : 0;
}

/// The folder is there, is a folder, and nobody else could put files in our way.
Status checkFolder(const std::string &folder) {
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0)
    return io::errnoError(Code::io, 671, "cannot put the nvme tier into", folder, errno);
  if (!S_ISDIR(info.st_mode))
    return io::errnoError(Code::io, 671, "cannot put the nvme tier into", folder, ENOTDIR);
  bool isOurs = info.st_uid == ::geteuid() || info.st_uid == 0;
  if (!isOurs || ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0))
    return makeError(Code::io, 672,
                     "the nvme tier's folder \"" + folder + "\" " +
                         (isOurs ? "can be written by everybody and is not sticky" : "belongs to somebody else"),
                     "--nvme-dir", "give a folder of your own");
  return {};
}

/// What kind of disk it is, where that matters.
void describeFolder(const std::string &folder, std::vector<std::string> &notes) {
  struct statfs info;
  if (::statfs(folder.c_str(), &info) != 0)
    return;
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6, kNfs = 0x6969;
  auto type = static_cast<unsigned long>(info.f_type) & 0xffffffff;
  if (type == kTmpfs || type == kRamfs)
    notes.push_back("\"" + folder + "\" is in memory (tmpfs): the nvme tier takes memory there, not disk");
  if (type == kNfs)
    notes.push_back("\"" + folder + "\" is on the network (NFS): the nvme tier is as fast as that");
}

} // namespace

static Error noSpace(const std::string &folder, uint64_t bytes, int errnum, uint64_t free) {
  Error error =
      io::errnoError(Code::io, 676, "the nvme tier needs " + std::to_string(bytes) + " bytes in", folder, errnum);
  error.note = std::to_string(free) + " bytes are free there";
  error.help = "give another --nvme-dir, or compile for more ranks";
  return error;
}

Status NvmeArena::check(const NvmeOptions &options, uint64_t bytes, uint64_t ranks) {
  if (options.folder.empty())
    return makeError(Code::usage, 673, "the plan keeps " + std::to_string(bytes) + " bytes per rank on the nvme tier",
                     {}, "give --nvme-dir DIR, a folder on a fast disk");
  ZC_RETURN_IF_ERROR(checkFolder(options.folder));
  // With what is reserved for root, who may be running this. File systems in memory may have no size of their own.
  struct statvfs info;
  bool isKnown = ::statvfs(options.folder.c_str(), &info) == 0 && info.f_blocks > 0;
  uint64_t each = toBlocks(bytes), needed = ranks > 0 && each > UINT64_MAX / ranks ? UINT64_MAX : each * ranks;
  uint64_t free = isKnown ? uint64_t(info.f_bfree) * info.f_frsize : needed;
  return needed > free ? Status(noSpace(options.folder, needed, ENOSPC, free)) : Status();
}

Result<std::unique_ptr<NvmeArena>> NvmeArena::create(const NvmeOptions &options, uint64_t bytes,
                                                     std::vector<std::string> &notes) {
  ZC_RETURN_IF_ERROR(check(options, bytes));
  describeFolder(options.folder, notes);
  std::unique_ptr<NvmeArena> arena(new NvmeArena());
  arena->folder = options.folder;
  arena->size = toBlocks(bytes);
  ZC_RETURN_IF_ERROR(arena->makeFile(options.folder, notes));
  ZC_RETURN_IF_ERROR(arena->takeSpace());
  if (options.checksums) {
    static constexpr std::array<char, kBlockBytes> kZeros{};
    arena->hashes.assign(arena->size / kBlockBytes, XXH3_64bits(kZeros.data(), kZeros.size()));
  }
  return arena;
}

Status NvmeArena::makeFile(const std::string &folder, std::vector<std::string> &notes) {
  Blocking here("making the nvme tier's file in", folder);
  if (int errnum = faultOr("spill.open"))
    return io::errnoError(Code::io, 674, "cannot make the nvme tier's file in", folder, errnum);
  fd = Descriptor(::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.isOpen() && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) { // no nameless files here
    std::string path = folder + "/zero-run-" + std::to_string(::getpid()) + "-XXXXXX";
    fd = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
    if (fd.isOpen() && ::unlink(path.c_str()) != 0)
      return io::errnoError(Code::io, 675, "cannot unlink", path, errno);
  }
  if (!fd.isOpen())
    return io::errnoError(Code::io, 674, "cannot make the nvme tier's file in", folder, errno);
  // Direct I/O, asked for afterwards: a file system that has none would make a named file and then refuse to open it.
  if (::fcntl(fd.get(), F_SETFL, O_RDWR | O_DIRECT) != 0)
    notes.push_back("\"" + folder + "\" has no direct I/O: the nvme tier goes through the page cache");
  return {};
}

static constexpr const char *kTaking = "taking space for the nvme tier in";

/// Writes all of the file, where the file system cannot promise space otherwise. 0, or an errno.
static int fillWithZeros(int fd, uint64_t size, const std::string &folder) {
  constexpr uint64_t kChunk = uint64_t(1) << 20;
  std::unique_ptr<void, decltype(&std::free)> zeros(std::aligned_alloc(kBlockBytes, kChunk), &std::free);
  if (!zeros)
    return ENOMEM;
  std::memset(zeros.get(), 0, kChunk);
  for (uint64_t at = 0; at < size;) {
    Blocking here(kTaking, folder);
    ssize_t put = ::pwrite(fd, zeros.get(), std::min(kChunk, size - at), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return errno;
    at += static_cast<uint64_t>(put) / kBlockBytes * kBlockBytes; // direct I/O goes on at a block
    if (put < static_cast<ssize_t>(kBlockBytes))
      return ENOSPC;
  }
  return 0;
}

Status NvmeArena::takeSpace() {
  int errnum = 0;
  {
    Blocking here(kTaking, folder);
    do {
      errnum = faultOr("spill.fallocate");
      if (errnum == 0 && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) != 0)
        errnum = errno;
    } while (errnum == EINTR);
  }
  if (errnum == EOPNOTSUPP)
    errnum = fillWithZeros(fd.get(), size, folder);
  if (errnum == 0)
    return {};
  struct statvfs info;
  uint64_t free = ::fstatvfs(fd.get(), &info) == 0 ? uint64_t(info.f_bavail) * info.f_frsize : 0;
  return noSpace(folder, size, errnum, free);
}

uint64_t NvmeArena::allocatedBytes() const {
  struct stat info;
  return ::fstat(fd.get(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
}

} // namespace zc
