#include "runtime/train/RunFolder.h"

#include "base/Blocking.h"
#include "runtime/io/Folder.h"
#include "runtime/io/OutputFile.h"
#include "runtime/train/CheckpointFolder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace zc::train {

namespace fs = std::filesystem;

std::string traceFile(int rank) { return rank == 0 ? "trace.json" : "trace-" + std::to_string(rank) + ".json"; }
std::string crashFile(int rank) { return "crash-rank-" + std::to_string(rank) + ".txt"; }

/// Whether it is one that a process of another rank than 0 writes.
static bool isOfLaterRank(const std::string &name) {
  const size_t digits = name.find_first_of("0123456789");
  const int rank = digits == std::string::npos ? 0 : std::atoi(name.c_str() + digits);
  return rank > 0 && (name == traceFile(rank) || name == crashFile(rank));
}

std::vector<std::string> filesOfTraining(const std::string &out, bool replacesCheckpoints) {
  std::vector<std::string> files;
  for (const std::string &name : {std::string(kMetricsFile), std::string(kProfilePage), std::string(kRecorderDump),
                                  std::string(kLock), std::string(kFlight), traceFile(0), crashFile(0)})
    files.push_back(out + "/" + name);
  std::error_code failure;
  for (fs::directory_iterator entry(out, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename();
    if (io::isLeftover(entry->path()) || isPassing(name) || isOfLaterRank(name) ||
        (replacesCheckpoints && isCheckpoint(name)))
      files.push_back(entry->path().string());
  }
  return files;
}

std::vector<std::string> filesOfEvaluation(const std::string &out) {
  std::vector<std::string> files;
  for (const char *name : {kEvaluationFile, kRecorderDump, kEvaluationFlight})
    files.push_back(out + "/" + name);
  return files;
}

/// Who holds a lock writes into it, for others to read; it is only said.
static void sign(int lock) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string text = "process " + std::to_string(::getpid()) + " on " + host + "\n";
  if (::ftruncate(lock, 0) != 0 || ::pwrite(lock, text.data(), text.size(), 0) != ssize_t(text.size()))
    return;
}
static std::string holderOf(int lock) {
  char text[300];
  ssize_t got = ::pread(lock, text, sizeof text, 0);
  std::string holder(text, size_t(std::max<ssize_t>(got, 0)));
  holder = holder.substr(0, holder.find('\n'));
  return holder.compare(0, 8, "process ") == 0 ? ": " + holder : "";
}

static Error cannotLock(const std::string &folder, int errnum) {
  Error error = io::errnoError(Code::io, 939, "cannot lock", folder, errnum);
  if (errnum == ENOSYS || errnum == ENOLCK || errnum == EOPNOTSUPP)
    error.help =
        "its file system has no locks, without which two runs in one folder would not know of each other: mount "
        "it with them (Lustre: -o flock), or give an --out on another";
  return error;
}

RunFolder &RunFolder::operator=(RunFolder &&other) noexcept {
  std::swap(path, other.path);
  std::swap(lock, other.lock);
  std::swap(made, other.made);
  return *this;
}

RunFolder::~RunFolder() {
  if (made.empty() || isGone() || !lock.isOpen())
    return;
  std::error_code failed;
  const fs::path own = fs::path(path) / kLock;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path() != own)
      return;
  if (failed || ::unlink(own.c_str()) != 0) // with the lock held: who has opened it finds that it is gone (open)
    return;
  fs::path folder = path;
  while (::rmdir(folder.c_str()) == 0 && folder != made)
    folder = folder.parent_path();
}

/// The outermost of the folders that have to be made for `path`; empty: all are there.
static std::string outermostMissing(const std::string &path) {
  fs::path missing;
  std::error_code unknown;
  for (fs::path at = path; !at.empty() && !fs::exists(at, unknown) && !unknown; at = at.parent_path())
    missing = at;
  return missing.string();
}

Result<RunFolder> RunFolder::open(const std::string &given) {
  RunFolder folder;
  folder.path = io::withoutSlash(given);
  const std::string &path = folder.path, name = path + "/" + kLock, made = outermostMissing(path);
  Blocking here("locking", name);
  // Where another run was refused at the same time it may take the folder away that this one has opened the lock of.
  for (int left = 100; !folder.lock.isOpen() || folder.isGone(); --left) {
    folder.lock.close();
    ZC_RETURN_IF_ERROR(io::makeFolder(path));
    std::error_code failed;
    if (fs::exists(path + "/" + io::kManifestFile, failed)) // whoever goes on with its run removes it one day
      return makeError(Code::usage, 909, "\"" + path + "\" is a checkpoint, not the folder of a run", "--out",
                       "give another --out; --resume " + path + " goes on from it");
    Descriptor opened(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!opened.isOpen() && errno == ENOENT && left > 0)
      continue;
    if (!opened.isOpen() || left == 0)
      return io::errnoError(Code::io, 930, "cannot open", name, opened.isOpen() ? ENOENT : errno);
    if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0)
      return errno == EWOULDBLOCK
                 ? makeError(Code::usage, 931, "another run is writing into \"" + path + "\"" + holderOf(opened.get()),
                             "--out", "give another --out, or wait for it to end")
                 : cannotLock(path, errno);
    folder.lock = std::move(opened);
  }
  folder.made = made;
  sign(folder.lock.get());
  ZC_RETURN_IF_ERROR(io::checkWritable(path));
  ZC_RETURN_IF_ERROR(io::OutputFile::create(path + "/" + kMetricsFile).status()); // before anything is removed
  std::error_code failed;
  // No other run is here, but an evaluation or an export may be writing into the folder, which take no lock.
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
    io::removeLeftover(entry->path());
  }
  return folder;
}

bool RunFolder::isGone() const {
  struct stat mine = {}, there = {};
  if (!lock.isOpen() || ::fstat(lock.get(), &mine) != 0)
    return false;
  if (::stat((path + "/" + kLock).c_str(), &there) != 0)
    return errno == ENOENT || errno == ENOTDIR; // what does not answer may be there
  return mine.st_dev != there.st_dev || mine.st_ino != there.st_ino;
}

std::string outputFolder(const RunOptions &options, const planpb::Plan &plan) {
  if (!options.out.empty())
    return options.out;
  std::string name = io::fileNameOf(plan.model().name());
  return "runs/" + (name.empty() || name[0] == '.' ? "run" : name);
}

bool hasMetrics(const std::string &out) {
  std::error_code failed;
  const auto bytes = fs::file_size(out + "/" + kMetricsFile, failed);
  return !failed && bytes > 0;
}

Status checkFresh(const std::string &out) {
  auto checkpoints = listCheckpoints(out);
  if (!checkpoints)
    return checkpoints.error();
  if (checkpoints->empty() && !hasMetrics(out))
    return Status::success();
  return makeError(Code::usage, 933, "\"" + out + "\" holds an earlier run",
                   checkpoints->empty() ? out + "/" + kMetricsFile : checkpoints->front(),
                   "continue it with --resume auto, give another --out, or remove it with --overwrite");
}

} // namespace zc::train
