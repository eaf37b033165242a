#include "tools/zero-run/Files.h"

#include "runtime/base/Outputs.h"
#include "runtime/io/File.h"
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
  std::vector<NamedPath> inputs = {{"", run.plan}, {"--hosts", flags.hosts}};
  for (const std::string &file : run.data.tokens)
    inputs.push_back({"--tokens", file});
  if (!run.data.data.empty())
    add(inputs, "--data", run.data.data, [](const fs::path &path) { return path.extension() == ".npy"; });
  if (!run.weights.empty())
    add(inputs, "--weights", run.weights, [](const fs::path &path) { return path.extension() == ".safetensors"; });
  inputs.push_back({"model", plan.model().path()});
  for (const planpb::ModelFile &external : plan.model().external())
    inputs.push_back({"model", io::folderOf(plan.model().path()) + "/" + external.file()});
  return inputs;
}

static std::vector<NamedPath> outputsOf(const Flags &flags, const planpb::Plan &plan) {
  bool trains = flags.command == Flags::Command::train;
  std::vector<NamedPath> outputs = {{"--outputs", flags.outputs}};
  std::string out = trains ? train::outputFolder(flags.run, plan) : flags.run.out;
  if (out.empty())
    return outputs;
  for (const char *name : {"metrics.jsonl", "trace.json", "eval.json", "flight-recorder.json"})
    outputs.push_back({"--out", out + "/" + name});
  std::error_code failure;
  if (trains && flags.run.overwrite) // what was trained there goes
    for (fs::directory_iterator entry(out, failure), end; !failure && entry != end; entry.increment(failure))
      if (std::string name = entry->path().filename(); name == "final" || name.compare(0, 5, "step-") == 0)
        outputs.push_back({"--out", entry->path().string()});
  return outputs;
}

Status checkFiles(const Flags &flags, const planpb::Plan &plan) {
  return checkOutputs(inputsOf(flags, plan), outputsOf(flags, plan));
}

} // namespace zc::run
