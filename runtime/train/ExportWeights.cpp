//===- ExportWeights.cpp - a checkpoint as the model's own state -----------------------------------===//
#include "runtime/io/Folder.h"
#include "runtime/train/Convert.h"
#include "runtime/train/Export.h"
#include "runtime/train/ModelNames.h"
#include "runtime/train/Weights.h"

#include <algorithm>
#include <memory>

namespace zc::train {

namespace {

/// Where one tensor of the state comes from.
struct StateTensor {
  std::shared_ptr<const io::File> file;
  int64_t offset = 0;
  TensorType type;       ///< as it is written
  bool isTurned = false; ///< rows and columns change places on the way
};

/// "3 ...: a, b, c", the first of many.
std::string listed(const std::vector<std::string> &names, const char *what) {
  std::string text = std::to_string(names.size()) + " " + what + ": ";
  for (size_t i = 0; i < names.size() && i < 5; ++i)
    text += (i ? ", " : "") + names[i];
  return text + (names.size() > 5 ? ", ..." : "");
}

class StateDict {
public:
  StateDict(const Manifest &manifest, const ModelNames *names, std::string original)
      : manifest(manifest), names(names), original(std::move(original)) {}
  Status collect(io::SafetensorsFile weights);
  void tell(const std::function<void(const std::string &)> &warn) const;
  Status write(const std::string &path) const;

private:
  void add(const Manifest::Parameter &parameter, const io::SafetensorsEntry &entry,
           const std::shared_ptr<const io::File> &file);
  std::string nameOf(const std::string &initializer, bool isTrained);
  Status addFromModel();
  bool isCopy(const std::string &name) const { return names && names->copyOf.count(name); }

  const Manifest &manifest;
  const ModelNames *names; ///< null: not known
  std::string original;    ///< the model
  std::map<std::string, StateTensor> tensors;
  std::vector<std::string> strange; ///< trained, under a name that is only the graph's
  std::vector<std::string> apart;   ///< copies of what has its own name, too
};

/// Of an initializer in the model's state; empty where it is no part of that.
std::string StateDict::nameOf(const std::string &initializer, bool isTrained) {
  if (!names)
    return initializer;
  if (isCopy(initializer))
    return names->others.count(names->copyOf.at(initializer)) ? "" : names->copyOf.at(initializer);
  if (names->others.count(initializer))
    return "";
  bool isPath = initializer.find('.') != std::string::npos && initializer.find("::") == std::string::npos;
  if (names->parameters.count(initializer) || (!names->isComplete && isPath))
    return initializer;
  if (isTrained)
    strange.push_back(initializer);
  return isTrained ? initializer : "";
}

void StateDict::add(const Manifest::Parameter &parameter, const io::SafetensorsEntry &entry,
                    const std::shared_ptr<const io::File> &file) {
  StateTensor tensor{file, entry.offset, entry.type, isCopy(parameter.name) && entry.type.dims.size() == 2};
  if (tensor.isTurned)
    std::swap(tensor.type.dims[0], tensor.type.dims[1]);
  std::vector<std::string> all = {parameter.name};
  all.insert(all.end(), parameter.tied.begin(), parameter.tied.end());
  for (const std::string &initializer : all) {
    std::string name = nameOf(initializer, parameter.trainable);
    if (!name.empty() && !tensors.emplace(name, tensor).second && initializer == parameter.name)
      apart.push_back(initializer + " (" + name + ")");
  }
}

Status StateDict::collect(io::SafetensorsFile weights) {
  std::vector<std::pair<const Manifest::Parameter *, io::SafetensorsEntry>> found;
  for (const Manifest::Parameter &parameter : manifest.parameters)
    if (const io::SafetensorsEntry *entry = weights.find(parameter.name))
      found.emplace_back(&parameter, *entry);
  auto file = std::make_shared<const io::File>(weights.takeFile());
  for (bool copies : {false, true}) // what has a name of its own comes before copies of it
    for (const auto &[parameter, entry] : found)
      if (isCopy(parameter->name) == copies)
        add(*parameter, entry, file);
  if (!names)
    return Status::success();
  ZC_RETURN_IF_ERROR(addFromModel());
  for (const auto &[name, first] : names->tied)
    if (auto shared = tensors.find(first); shared != tensors.end())
      tensors.emplace(name, shared->second);
  return Status::success();
}

/// What a run does not keep, since it never changes.
Status StateDict::addFromModel() {
  std::map<std::string, std::shared_ptr<const io::File>> files;
  for (const std::string &name : names->parameters) {
    auto initializer = names->initializers.find(name);
    if (tensors.count(name) || initializer == names->initializers.end() || !initializer->second.isKnown)
      continue;
    const ModelNames::Initializer &from = initializer->second;
    auto &file = files[from.file];
    if (!file) {
      auto opened =
          from.file.empty() ? io::File::open(original) : io::File::openBeneath(io::folderOf(original), from.file);
      if (!opened)
        return opened.error();
      file = std::make_shared<const io::File>(std::move(*opened));
    }
    tensors[name] = {file, from.offset, from.type, false};
  }
  return Status::success();
}

void StateDict::tell(const std::function<void(const std::string &)> &warn) const {
  if (!strange.empty())
    warn(listed(strange, "trained tensors keep the graph's names, since the exporter does not say what they are"));
  if (!apart.empty())
    warn(listed(apart, "copies of shared tensors were trained apart from them and are left out (zero-compile --tie)"));
  if (!names || !names->isComplete)
    return;
  std::vector<std::string> missing;
  for (const std::string &name : names->parameters)
    if (!tensors.count(name) && !names->unused.count(name))
      missing.push_back(name);
  if (!missing.empty())
    warn(listed(missing, "tensors of the model are not in its graph"));
}

Status appendTurned(io::SafetensorsWriter &out, const StateTensor &tensor) {
  std::vector<char> from(size_t(tensor.type.numBytes())), to(from.size());
  ZC_RETURN_IF_ERROR(tensor.file->readAt(from.data(), int64_t(from.size()), tensor.offset));
  turn(from.data(), tensor.type.dims[1], tensor.type.dims[0], sizeOf(tensor.type.dtype), to.data());
  return out.append(to.data(), int64_t(to.size()));
}

Status append(io::SafetensorsWriter &out, const StateTensor &tensor) {
  if (tensor.isTurned)
    return appendTurned(out, tensor);
  std::vector<char> buffer(1 << 20);
  for (int64_t done = 0, all = tensor.type.numBytes(); done < all; done += int64_t(buffer.size())) {
    int64_t now = std::min(int64_t(buffer.size()), all - done);
    ZC_RETURN_IF_ERROR(tensor.file->readAt(buffer.data(), now, tensor.offset + done));
    ZC_RETURN_IF_ERROR(out.append(buffer.data(), now));
  }
  return Status::success();
}

Status StateDict::write(const std::string &path) const {
  std::vector<io::SafetensorsWriter::Tensor> table;
  for (const auto &[name, tensor] : tensors)
    table.push_back({name, tensor.type});
  auto out = io::SafetensorsWriter::create(path, std::move(table),
                                           {{"format", "pt"}, {"step", std::to_string(manifest.step)}});
  if (!out)
    return out.error();
  for (const auto &[name, tensor] : tensors)
    ZC_RETURN_IF_ERROR(append(*out, tensor));
  return out->commit();
}

} // namespace

Status exportSafetensors(OpenCheckpoint checkpoint, const std::string &path, const std::string &model,
                         const std::function<void(const std::string &)> &warn) {
  const Manifest &manifest = checkpoint.manifest;
  const std::string original = model.empty() ? manifest.modelPath : model;
  std::vector<NamedPath> inputs = filesOf(manifest);
  inputs.push_back({"model", original});
  ZC_RETURN_IF_ERROR(checkOutputs(inputs, {written("--safetensors", path, FileKind::safetensors)}));
  std::optional<ModelNames> names;
  auto file = openModel(original, manifest.modelBytes, manifest.modelHash);
  auto read = file ? readModelNames(*file) : Result<ModelNames>(file.error());
  if (read)
    names = std::move(*read);
  else if (!model.empty())
    return read.error();
  else
    warn("names are the graph's: " + read.error().message + " (" + original + "); --model says where the model is");
  StateDict state(manifest, names ? &*names : nullptr, original);
  ZC_RETURN_IF_ERROR(state.collect(std::move(checkpoint.weights)));
  state.tell(warn);
  return state.write(path);
}

} // namespace zc::train
