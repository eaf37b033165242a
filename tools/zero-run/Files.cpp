#include "tools/zero-run/Files.h"

#include "runtime/data/TokenFile.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/Folder.h"
#include "runtime/io/Outputs.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/RunFolder.h"

#include <filesystem>

namespace zc::run {

namespace fs = std::filesystem;

/// A file, or of a folder the files in it and in its folders that `isOne` says yes to.
template <typename IsOne>
static void add(std::vector<NamedPath> &files, const char *flag, const std::string &path, IsOne isOne) {
  std::error_code failure;
  fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied, failure), end;
  if (failure) // no folder
    return files.push_back({flag, path});
  for (; !failure && entry != end; entry.increment(failure)) {
    if (entry.depth() > 0)
      entry.disable_recursion_pending();
    if (isOne(entry->path()))
      files.push_back({flag, entry->path().string()});
  }
}

static std::vector<NamedPath> inputsOf(const Flags &flags, const planpb::Plan &plan) {
  const train::RunOptions &run = flags.run;
  std::vector<NamedPath> inputs = {{"", run.plan}, {"--hosts", flags.hosts}, {"--products", run.products}};
  auto addData = [&](const char *tokensFlag, const std::vector<std::string> &tokens, const char *dataFlag,
                     const std::string &data) {
    for (const std::string &text : tokens)
      if (auto path = data::parseTokenPath(text))
        inputs.push_back({tokensFlag, path->file});
    if (!data.empty()) {
      inputs.push_back({dataFlag, data});
      add(inputs, dataFlag, data, [](const fs::path &path) { return path.extension() == ".npy"; });
    }
  };
  addData("--tokens", run.data.tokens, "--data", run.data.data);
  addData("--eval-tokens", run.evalTokens, "--eval-data", run.evalData);
  if (!run.weights.empty())
    add(inputs, "--weights", run.weights, [](const fs::path &path) { return path.extension() == ".safetensors"; });
  inputs.push_back({"model", plan.model().path()});
  for (const planpb::ModelFile &external : plan.model().external())
    inputs.push_back({"model", io::folderOf(plan.model().path()) + "/" + external.file()});
  return inputs;
}

static std::vector<NamedPath> outputsOf(const Flags &flags, const planpb::Plan &plan) {
  bool trains = flags.command == Flags::Command::train;
  std::vector<NamedPath> outputs = {written("--outputs", flags.outputs, FileKind::safetensors)};
  std::string out = trains ? train::outputFolder(flags.run, plan) : flags.run.out;
  if (out.empty())
    return outputs;
  const bool replacesCheckpoints = flags.run.overwrite || !flags.run.resume.empty();
  for (const std::string &file :
       trains ? train::filesOfTraining(out, replacesCheckpoints) : train::filesOfEvaluation(out))
    outputs.push_back({"--out", file});
  outputs.push_back({"--out", out, /*isShared=*/true});
  return outputs;
}

/// What to do with such a file, which was given for a plan.
static std::string insteadOfPlan(FileKind kind, const std::string &path) {
  switch (kind) {
  case FileKind::onnx:
    return "zero-compile " + path + " -o " + fs::path(path).stem().string() + ".plan makes one";
  case FileKind::tokens:
    return "zero-run PLAN --tokens " + path;
  case FileKind::safetensors:
    return "zero-run PLAN --data " + path + ", or --weights " + path;
  case FileKind::zip:
    return "export the model as ONNX (zero export), and compile that";
  default:
    return "the plan comes first: zero-run PLAN --data FILE";
  }
}

Result<planpb::Plan> openPlan(const std::string &path) {
  auto plan = readPlan(path);
  const FileKind kind = plan ? FileKind::plan : io::kindOf(path);
  if (kind == FileKind::unknown || kind == FileKind::plan)
    return plan;
  Error error = plan.error();
  error.message = "\"" + path + "\" is " + describe(kind) + ", not a plan";
  error.where.clear();
  error.help = insteadOfPlan(kind, path);
  return error;
}

Status checkFiles(const Flags &flags, const planpb::Plan &plan) {
  return checkOutputs(inputsOf(flags, plan), outputsOf(flags, plan));
}

} // namespace zc::run
