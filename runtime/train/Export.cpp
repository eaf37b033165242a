#include "runtime/train/Export.h"

#include "runtime/train/Convert.h"
#include "runtime/train/Weights.h"

#include <algorithm>

namespace zc::train {

Result<io::SafetensorsFile> openWeights(const Manifest &manifest) {
  ZC_RETURN_IF_ERROR(verifyFiles(manifest));
  return io::SafetensorsFile::open(manifest.folder + "/weights.safetensors");
}

std::vector<NamedPath> filesOf(const Manifest &manifest) {
  std::vector<NamedPath> files = {{"checkpoint", manifest.folder + "/manifest.json"}};
  for (const auto &[name, file] : manifest.files)
    files.push_back({"checkpoint", manifest.folder + "/" + name});
  return files;
}

/// Overwrites the parameter's bytes in `out` by its values, in the type the file has.
static Status patch(io::OutputFile &out, const Manifest::Parameter &parameter, const io::SafetensorsFile &weights) {
  const io::SafetensorsEntry *entry = weights.find(parameter.name);
  int64_t size = sizeOf(parameter.type);
  if (!entry || !convertible(entry->type.dtype, parameter.type) ||
      uint64_t(entry->type.numElements() * size) != parameter.bytes)
    return makeError(Code::corrupt, 920, "the checkpoint does not fit parameter \"" + parameter.name + "\"");
  if (parameter.bytes > uint64_t(out.size()) || parameter.offset > uint64_t(out.size()) - parameter.bytes)
    return makeError(Code::corrupt, 921,
                     "parameter \"" + parameter.name + "\" lies beyond the end of \"" + parameter.file + "\"");
  constexpr int64_t kChunk = 65536;
  std::vector<char> from(size_t(kChunk * sizeOf(entry->type.dtype))), to(size_t(kChunk * size));
  int64_t elements = entry->type.numElements();
  for (int64_t done = 0; done < elements; done += kChunk) {
    int64_t now = std::min(kChunk, elements - done);
    int64_t fromSize = sizeOf(entry->type.dtype);
    ZC_RETURN_IF_ERROR(weights.file().readAt(from.data(), now * fromSize, entry->offset + done * fromSize));
    convert(from.data(), entry->type.dtype, to.data(), parameter.type, now);
    ZC_RETURN_IF_ERROR(out.writeAt(to.data(), now * size, int64_t(parameter.offset) + done * size));
  }
  return Status::success();
}

/// The model file or one of its external files, copied and patched, not yet in place.
static Result<io::OutputFile> patchedCopy(const Manifest &manifest, const io::SafetensorsFile &weights,
                                          const io::File &original, const std::string &name, const std::string &path) {
  auto out = io::OutputFile::create(path);
  if (!out)
    return out.error();
  ZC_RETURN_IF_ERROR(io::copyInto(*out, original));
  for (const Manifest::Parameter &parameter : manifest.parameters)
    if (parameter.trainable && parameter.file == name)
      ZC_RETURN_IF_ERROR(patch(*out, parameter, weights));
  return out;
}

/// Names of the external files that hold parameters.
static Result<std::vector<std::string>> externalFiles(const Manifest &manifest, const std::string &model) {
  std::vector<std::string> names;
  for (const Manifest::Parameter &parameter : manifest.parameters) {
    if (parameter.trainable && parameter.file.empty())
      return makeError(Code::unsupported, 922,
                       "parameter \"" + parameter.name + "\" has no bytes in the model's files that could be replaced",
                       "", "export with --safetensors");
    // Tied names are initializers of their own in the file, untied uses share one: neither can be patched in place.
    bool shared = !parameter.tied.empty();
    for (const Manifest::Parameter &other : manifest.parameters)
      shared |= &other != &parameter && other.file == parameter.file && other.offset == parameter.offset &&
                parameter.bytes > 0 && !parameter.file.empty();
    if (parameter.trainable && shared)
      return makeError(Code::unsupported, 924,
                       "parameter \"" + parameter.name + "\" was tied or untied when compiling: the model's own " +
                           "initializers cannot hold it",
                       "", "export with --safetensors");
    if (!parameter.file.empty() && parameter.file != model &&
        std::find(names.begin(), names.end(), parameter.file) == names.end())
      names.push_back(parameter.file);
  }
  return names;
}

Status exportOnnx(const Manifest &manifest, const std::string &path, const std::string &model) {
  auto weights = openWeights(manifest);
  if (!weights)
    return weights.error();
  const std::string original = model.empty() ? manifest.modelPath : model;
  const std::string inner = io::fileNameOf(manifest.modelPath), from = io::folderOf(original), to = io::folderOf(path);
  auto names = externalFiles(manifest, inner);
  if (!names)
    return names.error();
  auto file = openModel(original, manifest.modelBytes, manifest.modelHash);
  if (!file)
    return file.error();
  std::vector<NamedPath> inputs = filesOf(manifest), outputs = {{"--onnx", path}};
  inputs.push_back({"model", original});
  for (const std::string &name : *names) {
    inputs.push_back({"model", from + "/" + name});
    outputs.push_back({"--onnx", to + "/" + name});
  }
  ZC_RETURN_IF_ERROR(checkOutputs(inputs, outputs));
  std::vector<io::OutputFile> outs;
  for (const std::string &name : *names) {
    auto external = io::File::openBeneath(from, name);
    if (!external)
      return external.error();
    std::string target = to + "/" + name;
    ZC_RETURN_IF_ERROR(io::makeFolder(io::folderOf(target)));
    auto out = patchedCopy(manifest, *weights, *external, name, target);
    if (!out)
      return out.error();
    outs.push_back(std::move(*out));
  }
  auto out = patchedCopy(manifest, *weights, *file, inner, path);
  if (!out)
    return out.error();
  // The model last: whoever finds it finds its data.
  for (io::OutputFile &each : outs)
    ZC_RETURN_IF_ERROR(each.commit());
  return out->commit();
}

} // namespace zc::train
