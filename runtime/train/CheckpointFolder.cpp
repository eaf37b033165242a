#include "runtime/train/CheckpointFolder.h"

#include "base/Blocking.h"
#include "base/Failpoint.h"
#include "runtime/io/File.h"
#include "runtime/io/Folder.h"
#include "runtime/io/OutputFile.h"
#include "runtime/train/VerifyCheckpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tuple>
#include <unistd.h>

namespace zc::train {

namespace fs = std::filesystem;

/// Failpoints between the steps of a save, in their order: ckpt.write (a rank's own part), ckpt.manifest, ckpt.rename,
/// ckpt.replaced (the old one is still there, by another name), ckpt.remove, ckpt.removed (half of it).
static Status passFault(const char *site, const std::string &path) {
  if (auto fault = failpoint(site); fault && fault->kind == FaultAction::Kind::error)
    return io::errnoError(Code::io, 935, "cannot save into", path, fault->errnum);
  return Status::success();
}

/// What cannot be looked at is there: who opens it is told why not.
static bool exists(const std::string &path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

//===- What there is -----------------------------------------------------------===//

static Result<std::vector<std::string>> namesIn(const std::string &out) {
  Blocking here("listing", out);
  std::vector<std::string> names;
  std::error_code failure;
  if (auto fault = failpoint("folder.list"); fault && fault->kind == FaultAction::Kind::error)
    failure = std::error_code(fault->errnum, std::generic_category());
  fs::directory_iterator entries, end;
  if (!failure)
    entries = fs::directory_iterator(out, failure);
  for (; !failure && entries != end; entries.increment(failure))
    names.push_back(entries->path().filename().string());
  if (failure && failure != std::errc::no_such_file_or_directory)
    return io::errnoError(Code::io, 907, "cannot list folder", out, failure.value());
  return names;
}

/// K of "step-K".
static std::optional<int64_t> stepOf(const std::string &name) {
  std::string digits = name.substr(std::min<size_t>(5, name.size()));
  bool isOne = name.compare(0, 5, "step-") == 0 && !digits.empty() && digits.size() < 18 &&
               digits.find_first_not_of("0123456789") == std::string::npos;
  return isOne ? std::optional<int64_t>(std::stoll(digits)) : std::nullopt;
}

/// Those that are of no certain step.
constexpr const char *kNamed[] = {"best", "final"};

static bool isCheckpointName(const std::string &name) {
  return std::find(std::begin(kNamed), std::end(kNamed), name) != std::end(kNamed) || stepOf(name).has_value();
}

/// What stands beside a checkpoint while it is being written, replaced or removed.
constexpr const char *kPassing[] = {".tmp", ".old", ".removed"};

/// What is set aside is called so, from the second on with a number.
constexpr const char *kAside = ".abandoned";

/// NAME of "NAME`suffix`", if that is a checkpoint's.
static std::optional<std::string> nameBefore(const std::string &file, const std::string &suffix) {
  if (file.size() <= suffix.size() || file.compare(file.size() - suffix.size(), suffix.size(), suffix) != 0)
    return std::nullopt;
  std::string name = file.substr(0, file.size() - suffix.size());
  return isCheckpointName(name) ? std::optional<std::string>(name) : std::nullopt;
}

bool isCheckpoint(const std::string &file) { return isCheckpointName(file.substr(0, file.find(kAside))); }

bool isPassing(const std::string &file) {
  return std::any_of(std::begin(kPassing), std::end(kPassing),
                     [&](const char *suffix) { return nameBefore(file, suffix).has_value(); });
}

Result<std::vector<std::string>> listSteps(const std::string &out) {
  auto names = namesIn(out);
  if (!names)
    return names;
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string &name : *names)
    if (auto step = stepOf(name))
      found.emplace_back(*step, out + "/" + name);
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> folders;
  for (auto &[step, folder] : found)
    folders.push_back(std::move(folder));
  return folders;
}

Result<std::vector<std::string>> listCheckpoints(const std::string &out) {
  auto steps = listSteps(out);
  if (!steps)
    return steps;
  // By step, and of one step by name: "final" before "step-K" before "best".
  std::vector<std::tuple<int64_t, int, std::string>> all;
  for (const std::string &folder : *steps)
    all.emplace_back(*stepOf(io::fileNameOf(folder)), 1, folder);
  for (const char *name : kNamed)
    if (std::string folder = out + "/" + name; exists(folder)) {
      auto manifest = readManifest(folder); // a broken one comes first, and is told about
      all.emplace_back(manifest ? manifest->step : INT64_MAX, name[0] == 'f' ? 2 : 0, folder);
    }
  std::sort(all.rbegin(), all.rend());
  std::vector<std::string> folders;
  for (auto &[step, rank, folder] : all)
    folders.push_back(std::move(folder));
  return folders;
}

/// The name of a file that checkpoints have, or that one has which is being written.
static bool isOfCheckpoint(const std::string &name) {
  const std::string own = "rank-", extension = fs::path(name).extension();
  return name == io::kManifestFile ||
         std::any_of(std::begin(kStates), std::end(kStates), [&](State state) { return name == fileOf(state); }) ||
         (name.compare(0, own.size(), own) == 0 && extension == ".safetensors") || io::isTemporary(name);
}

/// What lies in a folder that is called like a checkpoint, and is of none: somebody put it there. Of a file under such
/// a name, itself; a link to a folder has nothing in it.
static Result<std::vector<std::string>> foreignIn(const std::string &folder) {
  struct stat info = {};
  if (::lstat(folder.c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
    return S_ISLNK(info.st_mode) ? std::vector<std::string>() : std::vector<std::string>{io::fileNameOf(folder)};
  auto names = namesIn(folder);
  if (!names)
    return names.error();
  names->erase(std::remove_if(names->begin(), names->end(), isOfCheckpoint), names->end());
  return names;
}

//===- Into place and out of it ---------------------------------------------------===//

static Status removeAll(const std::string &folder) {
  Blocking here("removing", folder);
  std::error_code failure;
  if (auto fault = failpoint("ckpt.removed"); fault && fault->kind == FaultAction::Kind::error)
    failure = std::error_code(fault->errnum, std::generic_category());
  else
    fs::remove_all(folder, failure);
  return failure ? Status(io::errnoError(Code::io, 913, "cannot remove", folder, failure.value())) : Status::success();
}

/// errno, 0: done.
static int renamed(const std::string &from, const std::string &to) {
  Blocking here("renaming", from);
  if (auto fault = failpoint("folder.rename"); fault && fault->kind == FaultAction::Kind::error)
    return fault->errnum;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

std::string CheckpointFolder::aside(const std::string &name) const {
  std::string free = at(name) + kAside;
  for (int i = 2; exists(free); ++i)
    free = at(name) + kAside + "-" + std::to_string(i);
  return free;
}

Status CheckpointFolder::retire(const std::string &name, const char *suffix) {
  const std::string folder = at(name) + suffix;
  auto foreign = foreignIn(folder);
  if (!foreign)
    return foreign.error();
  if (foreign->empty())
    return removeAll(folder);
  const std::string kept = aside(name);
  if (int errnum = renamed(folder, kept))
    return io::errnoError(Code::io, 913, "cannot remove", folder, errnum);
  told("set aside \"" + kept + "\": it holds \"" + foreign->front() + "\", which no run wrote");
  return Status::success();
}

/// How many files and folders there are below it; -1: nobody can say.
static int64_t sizeOfTree(const std::string &folder) {
  std::error_code failure;
  int64_t count = 0;
  for (fs::recursive_directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
    ++count;
  return failure ? -1 : count;
}

Status CheckpointFolder::remove(const std::string &name) {
  std::string leaving = at(name) + ".removed";
  ZC_RETURN_IF_ERROR(passFault("ckpt.remove", at(name)));
  ZC_RETURN_IF_ERROR(retire(name, ".removed")); // of an earlier time
  if (int errnum = renamed(at(name), leaving))
    return io::errnoError(Code::io, 913, "cannot remove", at(name), errnum);
  trusted.erase(at(name));
  const int64_t whole = sizeOfTree(leaving);
  Status gone = retire(name, ".removed");
  if (!gone.ok() && !exists(at(name)) && whole >= 0 && sizeOfTree(leaving) == whole)
    (void)renamed(leaving, at(name)); // of another user, say: it is what it was
  return gone;
}

Status CheckpointFolder::begin(const std::string &name) {
  ZC_RETURN_IF_ERROR(retire(name, ".tmp"));
  return io::makeFolder(at(name) + ".tmp");
}

void CheckpointFolder::discard(const std::string &name) { (void)retire(name, ".tmp"); }

/// Both names change what they stand for at once. errno, 0: done.
static int swapNames(const std::string &a, const std::string &b) {
  Blocking here("putting in place", b);
  if (auto fault = failpoint("ckpt.exchange"); fault && fault->kind == FaultAction::Kind::error)
    return fault->errnum;
  // glibc's wrapper came with 2.28; the system call is older.
  return ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
}

Status CheckpointFolder::replace(const std::string &name) {
  const std::string from = at(name) + ".tmp", to = at(name), old = at(name) + ".old";
  ZC_RETURN_IF_ERROR(retire(name, ".old"));
  if (int errnum = renamed(to, old))
    return io::errnoError(Code::io, 914, "cannot put in place", to, errnum);
  ZC_RETURN_IF_ERROR(passFault("ckpt.replaced", to));
  Status put = io::renameInto(from, to);
  if (!put.ok() && !exists(to))
    (void)renamed(old, to); // as it was
  return put;
}

Status CheckpointFolder::putInPlace(const std::string &name) {
  std::string temporary = at(name) + ".tmp";
  Status ready = passFault("ckpt.rename", temporary);
  bool isNew = !exists(at(name));
  if (ready.ok() && isNew)
    ready = io::renameInto(temporary, at(name));
  if (!ready.ok())
    discard(name); // nothing was there, or stays as it was
  if (!ready.ok() || isNew)
    return ready;
  int errnum = swapNames(temporary, at(name));
  bool exchanges = errnum != EINVAL && errnum != ENOSYS && errnum != EOPNOTSUPP;
  if (exchanges && errnum != 0) {
    discard(name);
    return io::errnoError(Code::io, 914, "cannot put in place", at(name), errnum);
  }
  ZC_RETURN_IF_ERROR(exchanges ? io::syncFolder(out) : replace(name));
  ZC_RETURN_IF_ERROR(exchanges ? passFault("ckpt.replaced", at(name)) : Status::success());
  // Where the old one cannot go it is in nobody's way: the next save or the next start removes it.
  (void)retire(name, exchanges ? ".tmp" : ".old");
  return Status::success();
}

Status CheckpointFolder::prune(int64_t keep, const std::string &saved) {
  auto steps = listSteps(out);
  if (!steps)
    return steps.error();
  int64_t whole = 0;
  for (const std::string &folder : *steps) {
    if (whole >= keep) {
      if (io::fileNameOf(folder) != saved)
        ZC_RETURN_IF_ERROR(remove(io::fileNameOf(folder)));
      continue;
    }
    if (!trusted.count(folder)) {
      auto manifest = readManifest(folder);
      Status status = manifest ? verifyFiles(*manifest) : Status(manifest.error());
      if (!status.ok() && status.error().code != Code::corrupt)
        return status; // perhaps it is whole, and perhaps not: then none may go
      if (!status.ok())
        continue;
      trust(folder);
    }
    ++whole;
  }
  return Status::success();
}

Status CheckpointFolder::abandonAfter(int64_t step) {
  auto checkpoints = listSteps(out);
  if (!checkpoints)
    return checkpoints.error();
  std::vector<std::string> later;
  for (const std::string &folder : *checkpoints)
    if (*stepOf(io::fileNameOf(folder)) > step)
      later.push_back(folder);
  for (const char *name : kNamed)
    if (exists(at(name)))
      if (auto manifest = readManifest(at(name)); !manifest || manifest->step > step)
        later.push_back(at(name));
  for (const std::string &folder : later) {
    const std::string kept = aside(io::fileNameOf(folder));
    ZC_RETURN_IF_ERROR(io::renameInto(folder, kept));
    told("set aside \"" + kept + "\": the run goes on after step " + std::to_string(step));
  }
  return Status::success();
}

//===- After a kill ----------------------------------------------------------------===//

/// The step of a whole checkpoint, -1 of none. Errors: those that leave open whether it is one.
static Result<int64_t> wholeStep(const std::string &folder) {
  if (!exists(folder))
    return int64_t(-1);
  auto manifest = readManifest(folder);
  Status status = manifest ? verifyFiles(*manifest) : Status(manifest.error());
  if (!status.ok() && status.error().code != Code::corrupt)
    return status;
  return status.ok() ? manifest->step : int64_t(-1);
}

Status CheckpointFolder::finish(const std::string &name) {
  std::string temporary = at(name) + ".tmp", old = at(name) + ".old";
  auto mine = wholeStep(temporary), there = wholeStep(at(name));
  if (!mine || !there)
    return mine ? there.error() : mine.error();
  if (*mine > *there) {
    ZC_RETURN_IF_ERROR(putInPlace(name));
    told("\"" + at(name) + "\" was whole but not in place; it is now");
    trust(at(name));
  } else if (!exists(at(name)) && exists(old)) {
    ZC_RETURN_IF_ERROR(io::renameInto(old, at(name)));
  }
  for (const char *suffix : {".tmp", ".old"})
    ZC_RETURN_IF_ERROR(retire(name, suffix));
  if (Status gone = retire(name, ".removed"); !gone.ok())
    told(gone.error().message); // where it stays it is in nobody's way
  return Status::success();
}

Status CheckpointFolder::recover() {
  auto names = namesIn(out);
  if (!names)
    return names.error();
  std::set<std::string> touched;
  for (const std::string &file : *names)
    for (const char *suffix : kPassing)
      if (auto name = nameBefore(file, suffix))
        touched.insert(*name);
  for (const std::string &name : touched)
    ZC_RETURN_IF_ERROR(finish(name));
  return Status::success();
}

Result<std::vector<std::string>> CheckpointFolder::removable() const {
  auto names = namesIn(out), checkpoints = listCheckpoints(out);
  if (!names || !checkpoints)
    return names ? checkpoints.error() : names.error();
  names->erase(std::remove_if(names->begin(), names->end(),
                              [](const auto &name) {
                                return isCheckpointName(name) || (!isCheckpoint(name) && !isPassing(name));
                              }),
               names->end());
  for (auto folder = checkpoints->rbegin(); folder != checkpoints->rend(); ++folder)
    names->push_back(io::fileNameOf(*folder));
  for (const std::string &name : *names) {
    auto foreign = foreignIn(at(name));
    if (!foreign)
      return foreign.error();
    if (!foreign->empty())
      return makeError(Code::usage, 967,
                       "\"" + at(name) + "\" is called like a checkpoint and holds \"" + foreign->front() +
                           "\", which no run wrote",
                       "--overwrite", "it would be removed: move it, or give another --out");
  }
  return names;
}

Status CheckpointFolder::clear() {
  auto names = removable();
  if (!names)
    return names.error();
  for (const std::string &name : *names)
    ZC_RETURN_IF_ERROR(isCheckpointName(name) ? remove(name) : removeAll(at(name)));
  return Status::success();
}

} // namespace zc::train
