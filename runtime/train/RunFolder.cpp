#include "runtime/train/RunFolder.h"

#include "runtime/io/File.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

namespace zc::train {

namespace fs = std::filesystem;

RunFolder &RunFolder::operator=(RunFolder &&other) noexcept {
  std::swap(path, other.path);
  std::swap(lock, other.lock);
  return *this;
}

RunFolder::~RunFolder() {
  if (lock >= 0)
    ::close(lock);
}

static void sweep(const std::string &path) {
  std::error_code failure;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entries(path, failure), end; !failure && entries != end; entries.increment(failure)) {
    std::string name = entries->path().filename().string();
    bool half = name.size() > 4 && name.compare(name.size() - 4, 4, ".tmp") == 0;
    if (half && (name.compare(0, 5, "step-") == 0 || name.compare(0, 6, "final.") == 0))
      leftovers.push_back(entries->path());
  }
  for (const fs::path &leftover : leftovers)
    fs::remove_all(leftover, failure);
}

Result<RunFolder> RunFolder::open(const std::string &path) {
  ZC_RETURN_IF_ERROR(io::makeFolder(path));
  RunFolder folder;
  folder.path = path;
  std::string name = path + "/.lock";
  folder.lock = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (folder.lock < 0)
    return io::errnoError(Code::io, 930, "cannot write into", path, errno);
  if (::flock(folder.lock, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? makeError(Code::usage, 931, "another run is writing into \"" + path + "\"", "--out",
                                            "give another --out")
                                : io::errnoError(Code::io, 930, "cannot lock", path, errno);
  ZC_RETURN_IF_ERROR(io::checkWritable(path));
  sweep(path);
  return folder;
}

std::string outputFolder(const RunOptions &options, const planpb::Plan &plan) {
  if (!options.out.empty())
    return options.out;
  std::string name = io::fileNameOf(plan.model().name());
  return "runs/" + (name.empty() || name[0] == '.' ? "run" : name);
}

static Error otherRun(const Manifest &manifest, const std::string &what, const std::string &has,
                      const std::string &needs) {
  return makeError(Code::mismatch, 932, "the checkpoint is of another run: " + what + " " + has + ", here " + needs,
                   manifest.folder);
}

static Status checkSameRun(const Manifest &manifest, const Manifest &expected) {
  auto text = [](auto value) { return std::to_string(value); };
  if (manifest.worldSize != expected.worldSize)
    return otherRun(manifest, "world size", text(manifest.worldSize), text(expected.worldSize));
  if (manifest.planHash != expected.planHash)
    return otherRun(manifest, "plan", text(manifest.planHash), text(expected.planHash));
  if (manifest.seed != expected.seed)
    return otherRun(manifest, "seed", text(manifest.seed), text(expected.seed));
  if (manifest.samples != expected.samples || manifest.shuffle != expected.shuffle)
    return otherRun(manifest, "samples of data", text(manifest.samples), text(expected.samples));
  return Status::success();
}

static Result<Manifest> openCheckpoint(const std::string &folder) {
  auto manifest = readManifest(folder);
  if (!manifest)
    return manifest;
  ZC_RETURN_IF_ERROR(verifyFiles(*manifest));
  return manifest;
}

/// The newest first: step-N, and "final" of a run that ended, which may be older than a later run's.
static std::vector<std::string> checkpointsOf(const std::string &out) {
  std::vector<std::string> checkpoints = listCheckpoints(out);
  std::string final = out + "/final";
  std::error_code ignored;
  if (!fs::exists(final, ignored))
    return checkpoints;
  auto manifest = readManifest(final); // a broken one comes first, and is told about
  auto isOlder = [&](const std::string &folder) {
    return !manifest || std::stoll(folder.substr(folder.rfind('-') + 1)) <= manifest->step;
  };
  checkpoints.insert(std::find_if(checkpoints.begin(), checkpoints.end(), isOlder), final);
  return checkpoints;
}

Result<std::optional<Manifest>> findCheckpoint(const std::string &out, const std::string &resume,
                                               const Manifest &expected, std::vector<std::string> &skipped) {
  std::optional<Manifest> found;
  if (resume.empty()) {
    std::vector<std::string> checkpoints = listCheckpoints(out);
    if (checkpoints.empty())
      return found;
    return makeError(Code::usage, 933, "\"" + out + "\" holds checkpoints of an earlier run", checkpoints[0],
                     "continue it with --resume auto, or give another --out");
  }
  for (const std::string &folder : resume == "auto" ? checkpointsOf(out) : std::vector<std::string>{resume}) {
    auto manifest = openCheckpoint(folder);
    if (!manifest && resume != "auto")
      return manifest.error();
    if (!manifest) {
      skipped.push_back(render(manifest.error()));
      continue;
    }
    ZC_RETURN_IF_ERROR(checkSameRun(*manifest, expected));
    found = std::move(*manifest);
    break;
  }
  return found;
}

} // namespace zc::train
