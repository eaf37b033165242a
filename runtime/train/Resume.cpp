#include "runtime/train/Resume.h"
#include "base/Shell.h"
#include "runtime/io/Folder.h"
#include "runtime/train/VerifyCheckpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <sys/stat.h>

namespace zc::train {

//===- Finding ------------------------------------------------------------------===//

Result<CheckpointChoice> CheckpointChoice::of(const std::string &path) {
  struct stat info = {};
  CheckpointChoice choice;
  choice.folders = {path};
  if (::lstat((path + "/" + io::kManifestFile).c_str(), &info) == 0)
    return choice;
  if (::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    std::string folder = io::folderOf(path);
    bool isPart = ::lstat((folder + "/" + io::kManifestFile).c_str(), &info) == 0;
    return makeError(Code::badInput, 937, "\"" + path + "\" is a file, no folder of a checkpoint or a run", "",
                     isPart ? "give \"" + folder + "\", which it is a part of" : "");
  }
  auto checkpoints = listCheckpoints(path);
  if (!checkpoints)
    return checkpoints.error();
  if (!checkpoints->empty()) {
    choice.run = path;
    choice.folders = std::move(*checkpoints);
    return choice;
  }
  if (::lstat((path + "/" + fileOf(State::weights)).c_str(), &info) != 0 && ::lstat(path.c_str(), &info) == 0)
    return makeError(Code::badInput, 926, "\"" + path + "\" holds no checkpoint");
  return choice; // the rest of one, or nothing
}

Result<std::optional<CheckpointChoice>> CheckpointChoice::toResume(const std::string &out, const std::string &resume) {
  if (resume == "auto") {
    auto checkpoints = listCheckpoints(out);
    if (!checkpoints)
      return checkpoints.error();
    if (checkpoints->empty())
      return std::optional<CheckpointChoice>();
  }
  auto choice = of(resume == "auto" ? out : resume);
  if (!choice)
    return choice.error();
  return std::optional<CheckpointChoice>(std::move(*choice));
}

Status CheckpointChoice::passOver(const Error &why, const Told &passed) {
  if (run.empty() || why.code != Code::corrupt)
    return why;
  std::string text = "\"" + (why.where.empty() ? folders[at] : why.where) + "\" is passed over: " + why.message;
  if (++at < folders.size())
    text += "; \"" + folders[at] + "\" is tried";
  passed(text);
  return Status::success();
}

Result<Manifest> readVerified(const std::string &folder, const std::function<Status(const Manifest &)> &verify,
                              bool &replaced) {
  struct stat before = {}, after = {};
  replaced = ::lstat(folder.c_str(), &before) != 0 && errno == ENOENT; // since it was listed
  if (::stat(folder.c_str(), &before) != 0)
    return readManifest(folder);
  auto manifest = readManifest(folder);
  Status status = manifest ? verify(*manifest) : Status(manifest.error());
  if (status.ok())
    return manifest;
  replaced = ::stat(folder.c_str(), &after) != 0 ? errno == ENOENT
                                                 : before.st_dev != after.st_dev || before.st_ino != after.st_ino;
  return status.error();
}

Result<Manifest> CheckpointChoice::newest(const std::function<Status(const Manifest &)> &verify, const Told &passed) {
  int again = 100; // a run that goes on saves; what never stands still is an error one day
  while (at < folders.size()) {
    bool replaced = false;
    auto manifest = readVerified(folders[at], verify, replaced);
    if (manifest)
      return manifest;
    if (!replaced || run.empty() || again-- == 0) {
      ZC_RETURN_IF_ERROR(passOver(manifest.error(), passed));
      continue;
    }
    auto anew = of(run);
    if (!anew)
      return anew.error();
    *this = std::move(*anew);
  }
  return makeError(Code::corrupt, 917,
                   "none of the " + std::to_string(folders.size()) + " checkpoints in \"" + run + "\" can be used",
                   folders[0], "zero-run checkpoint verify says what is wrong; --overwrite starts afresh");
}

Result<OpenCheckpoint> openCheckpoint(const std::string &path, const Told &passed) {
  auto choice = CheckpointChoice::of(path);
  if (!choice)
    return choice.error();
  std::optional<io::SafetensorsFile> weights;
  auto verify = [&](const Manifest &manifest) -> Status {
    auto opened =
        io::SafetensorsFile::open(manifest.folder + "/" + fileOf(State::weights)); // what is verified, or older
    ZC_RETURN_IF_ERROR(verifyFiles(manifest));
    if (opened)
      weights = std::move(*opened);
    return opened.status();
  };
  auto manifest = choice->newest(verify, passed);
  if (!manifest)
    return manifest.error();
  return OpenCheckpoint{std::move(*manifest), std::move(*weights)};
}

//===- Comparing ----------------------------------------------------------------===//

static std::string text(double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.9g", value);
  return digits;
}
static std::string text(int64_t value) { return std::to_string(value); }
static std::string text(bool value) { return value ? "on" : "off"; }
static std::string text(const std::string &value) { return value; }

template <typename T>
static Error differs(const Manifest &manifest, const std::string &what, const T &has, const T &here,
                     const std::string &help) {
  return makeError(Code::mismatch, 932, "the checkpoint has " + what + " " + text(has) + ", here it is " + text(here),
                   manifest.folder, help);
}

static Status checkTensors(const planpb::Plan &plan, const Manifest &manifest) {
  std::map<std::string, const Manifest::Tensor *> known;
  for (const Manifest::Tensor &tensor : manifest.tensors)
    if (tensor.file == fileOf(State::weights))
      known[tensor.name] = &tensor;
  std::vector<std::string> problems;
  std::vector<Whole> wholes = wholesOf(plan);
  for (const Whole &whole : wholes) {
    auto found = known.find(whole.name);
    if (found == known.end())
      problems.push_back("\"" + whole.name + "\" is missing");
    else if (found->second->type.dims != whole.type.dims)
      problems.push_back("\"" + whole.name + "\" has another shape");
  }
  if (problems.empty() && known.size() == wholes.size())
    return Status::success();
  Error error =
      makeError(Code::mismatch, 918,
                "the checkpoint is of another model: " + std::to_string(problems.size()) + " of " +
                    std::to_string(wholes.size()) + " tensors do not fit; it has " + std::to_string(known.size()),
                manifest.folder);
  for (size_t i = 0; i < problems.size() && i < 5; ++i)
    error.note += (i ? ", " : "") + problems[i];
  if (problems.size() > 5)
    error.note += ", ...";
  return error;
}

static Status checkData(const Manifest &manifest, const Manifest &expected) {
  const char *help = "give the same data and flags, or say with --data-changed that it is meant";
  const Manifest::Data &has = manifest.data, &here = expected.data;
  if (has.samples != here.samples)
    return differs(manifest, "samples of data", has.samples, here.samples, help);
  if (has.shuffle != here.shuffle)
    return differs(manifest, "--shuffle", has.shuffle, here.shuffle, help);
  if (has.shiftLabels != here.shiftLabels)
    return differs(manifest, "--shift-labels", has.shiftLabels, here.shiftLabels, help);
  if (has.fingerprint != here.fingerprint)
    return makeError(Code::mismatch, 919, "the data are not those that the checkpoint was trained on", manifest.folder,
                     help);
  return Status::success();
}

static int64_t ranksPerSample(const Mesh &mesh) { return mesh.worldSize() / mesh.dataDegree(); }

/// The step after a delayed one adds to parameters that other sums over ranks would not have given.
static Status checkDelay(const Manifest &manifest, const Manifest &expected) {
  const int64_t has = ranksPerSample(manifest.plan.mesh), here = ranksPerSample(expected.plan.mesh);
  if (!manifest.plan.delayed || has == here)
    return Status::success();
  return differs(manifest, "a delayed update, and ranks per sample", has, here,
                 "compile with --tensor-parallel " + text(has) +
                     ", or start another run from its weights with --weights");
}

Status checkResumes(const planpb::Plan &plan, const Manifest &manifest, const Manifest &expected,
                    const RunOptions &options) {
  ZC_RETURN_IF_ERROR(checkTensors(plan, manifest));
  ZC_RETURN_IF_ERROR(checkDelay(manifest, expected));
  const planpb::Optimizer &has = manifest.optimizer, &here = expected.optimizer;
  if (has.rule() != here.rule())
    return differs(manifest, "optimizer", has.rule(), here.rule(),
                   "compile with --optimizer " + has.rule() + ", or start another run from its weights with --weights");
  if (has.lr() != here.lr() && !options.lr)
    return differs(manifest, "learning rate", has.lr(), here.lr(),
                   "--lr " + text(has.lr()) + " goes on as before, --lr " + text(here.lr()) + " changes it");
  if (manifest.seed != expected.seed)
    return differs(manifest, "seed", int64_t(manifest.seed), int64_t(expected.seed),
                   "give --seed " + std::to_string(manifest.seed));
  return options.dataChanged ? Status::success() : checkData(manifest, expected);
}

static std::string namesOf(const Mesh &mesh) {
  std::string names;
  for (const MeshAxis &axis : mesh.axes())
    names += (names.empty() ? "" : ",") + axis.name;
  return names;
}

/// What parameters have of their own from here on: one line for all that change alike. What the settings of all change
/// is said of these.
static void tellOfGroups(const Manifest &manifest, const Manifest &expected, std::vector<std::string> &lines) {
  std::map<std::string, const Manifest::Parameter *> before;
  for (const Manifest::Parameter &parameter : manifest.parameters)
    before[parameter.name] = &parameter;
  std::map<std::string, std::vector<std::string>> changed; // what, of which
  for (const Manifest::Parameter &now : expected.parameters) {
    auto found = before.find(now.name);
    if (found == before.end())
      continue;
    const Manifest::Parameter &was = *found->second;
    if (was.trainable && !now.trainable)
      changed["frozen"].push_back(now.name);
    if (!was.trainable || !now.trainable)
      continue;
    if (was.lrScale && was.lrScale != now.lrScale)
      changed["a learning rate times " + text(*now.lrScale) + " instead of " + text(*was.lrScale)].push_back(now.name);
    const double others = manifest.optimizer.weight_decay(), othersNow = expected.optimizer.weight_decay();
    const bool isOwn = was.weightDecay != others || now.weightDecay != othersNow;
    if (was.weightDecay && was.weightDecay != now.weightDecay && isOwn)
      changed["weight decay " + text(*now.weightDecay) + " instead of " + text(*was.weightDecay)].push_back(now.name);
  }
  for (const auto &[what, names] : changed)
    lines.push_back("from here on: " + what + " of \"" + names.front() + "\"" +
                    (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : ""));
}

/// Of zero-compile, with their values: what a command says besides the model.
static std::map<std::string, std::string> flagsOf(const std::string &command) {
  std::map<std::string, std::string> flags;
  std::string *last = nullptr;
  for (const std::string &word : shellWords(command)) {
    const bool isFlag = word.size() > 2 && word.compare(0, 2, "--") == 0;
    if (isFlag)
      last = &flags[word];
    if (!isFlag && last)
      *last += " " + word;
  }
  return flags;
}

/// What the plans were compiled with. Flags whose meaning is compared by itself are left out.
static std::string flagsThatChanged(const std::string &before, const std::string &now) {
  static const std::set<std::string> kCompared = {"--world-size",
                                                  "--ranks-per-node",
                                                  "--tensor-parallel",
                                                  "--mesh",
                                                  "--zero-stage",
                                                  "--precision",
                                                  "--dim",
                                                  "--optimizer",
                                                  "--lr",
                                                  "--lr-schedule",
                                                  "--warmup",
                                                  "--betas",
                                                  "--eps",
                                                  "--weight-decay",
                                                  "--momentum",
                                                  "--clip-grad-norm",
                                                  "--grad-accumulation",
                                                  "--param-groups",
                                                  "--delay-update",
                                                  "--seed"};
  std::map<std::string, std::string> was = flagsOf(before), is = flagsOf(now);
  std::string list;
  auto add = [&list](const std::string &text) { list += (list.empty() ? "" : ", ") + text; };
  for (const auto &[flag, value] : is)
    if (auto had = was.find(flag); kCompared.count(flag) == 0 && (had == was.end() || had->second != value))
      add("with " + flag + value + (had == was.end() ? "" : " instead of" + had->second));
  for (const auto &[flag, value] : was)
    if (kCompared.count(flag) == 0 && is.count(flag) == 0)
      add("without " + flag + value);
  constexpr size_t kMost = 400;
  return escapeName(list.size() <= kMost ? list : list.substr(0, kMost) + "...");
}

std::vector<std::string> changesOf(const Manifest &manifest, const Manifest &expected) {
  std::vector<std::string> lines;
  std::string list;
  auto compare = [&list](const char *what, const auto &was, const auto &is) {
    if (was != is)
      list += (list.empty() ? "" : ", ") + std::string(what) + " " + text(is) + " instead of " + text(was);
  };
  const Manifest::Strategy &was = manifest.plan, &is = expected.plan;
  compare("world size", int64_t(was.mesh.worldSize()), int64_t(is.mesh.worldSize()));
  compare("ranks per sample", ranksPerSample(was.mesh), ranksPerSample(is.mesh));
  compare("ranks per node", int64_t(was.mesh.ranksPerNode()), int64_t(is.mesh.ranksPerNode()));
  if (was.mesh.axes().size() == is.mesh.axes().size())
    compare("axes", namesOf(was.mesh), namesOf(is.mesh));
  compare("ZeRO stage", was.stage, is.stage);
  compare("precision", was.precision, is.precision);
  compare("accumulation", was.accumulation, is.accumulation);
  compare("samples per step", was.samplesPerStep, is.samplesPerStep);
  const bool saysBoth = !was.command.empty() && !is.command.empty();
  if (const std::string flags = saysBoth ? flagsThatChanged(was.command, is.command) : ""; !flags.empty())
    list += (list.empty() ? "compiled " : ", compiled ") + flags;
  if (was.hash != is.hash)
    lines.push_back("another plan goes on: " + (list.empty() ? "the same mesh and stage" : list));
  list.clear();
  const planpb::Optimizer &before = manifest.optimizer, &now = expected.optimizer;
  compare("learning rate", before.lr(), now.lr());
  compare("schedule", before.lr_schedule(), now.lr_schedule());
  compare("warm-up", manifest.warmup, expected.warmup);
  compare("beta1", before.beta1(), now.beta1());
  compare("beta2", before.beta2(), now.beta2());
  compare("eps", before.eps(), now.eps());
  compare("weight decay", before.weight_decay(), now.weight_decay());
  compare("momentum", before.momentum(), now.momentum());
  compare("clipping at", before.max_norm(), now.max_norm());
  if (!list.empty())
    lines.push_back("from here on: " + list);
  tellOfGroups(manifest, expected, lines);
  if (manifest.products != expected.products)
    lines.push_back(
        "another table of products decides how they are computed, or none does: they are rounded otherwise");
  if (was.hash != is.hash && was.hasResiduals)
    lines.push_back("what quantized gradients had lost is not carried over: it starts at zero");
  if (was.delayed && !is.delayed)
    lines.push_back("the update was delayed and is not any more: parameters are the weights at once");
  if (!was.delayed && is.delayed)
    lines.push_back("the update is delayed from here on: parameters begin as the weights");
  return lines;
}

} // namespace zc::train
