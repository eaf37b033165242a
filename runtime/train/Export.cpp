#include "runtime/train/Export.h"

#include "runtime/io/FileKind.h"
#include "runtime/io/Folder.h"
#include "runtime/io/OutputFile.h"
#include "runtime/train/Convert.h"
#include "runtime/train/ExternalNames.h"
#include "runtime/train/ModelNames.h"
#include "runtime/train/Weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

namespace zc::train {

std::vector<NamedPath> filesOf(const Manifest &manifest) {
  std::vector<NamedPath> files = {{"checkpoint", manifest.folder + "/" + io::kManifestFile}};
  for (const auto &[name, file] : manifest.files)
    files.push_back({"checkpoint", manifest.folder + "/" + name});
  return files;
}

/// Puts bytes at an offset.
using Write = std::function<Status(const void *data, int64_t count, int64_t offset)>;

/// Does a run change it? What is frozen may have come with --weights: it is replaced where the model has bytes for it.
static bool isChanged(const Manifest::Parameter &parameter) { return parameter.trainable || parameter.buffer; }

/// Have the checkpoint's values room where the model has those of the parameter?
static bool fits(const Manifest::Parameter &parameter, const io::SafetensorsEntry &entry) {
  return convertible(entry.type.dtype, parameter.type) &&
         uint64_t(entry.type.numElements() * sizeOf(parameter.type)) == parameter.bytes;
}

/// Overwrites the parameter's bytes in a file of `size` by its values, in the type the file has.
static Status patch(const Write &write, int64_t fileSize, const Manifest::Parameter &parameter,
                    const io::SafetensorsFile &weights) {
  const io::SafetensorsEntry *entry = weights.find(parameter.name);
  int64_t size = sizeOf(parameter.type);
  if (!entry || !fits(parameter, *entry)) {
    if (!isChanged(parameter))
      return Status::success();
    return makeError(Code::corrupt, 920, "the checkpoint does not fit parameter \"" + parameter.name + "\"");
  }
  if (parameter.bytes > uint64_t(fileSize) || parameter.offset > uint64_t(fileSize) - parameter.bytes)
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
    ZC_RETURN_IF_ERROR(write(to.data(), now * size, int64_t(parameter.offset) + done * size));
  }
  return Status::success();
}

/// All parameters that lie in the file that the model calls `name`.
static Status patchAll(const Write &write, int64_t fileSize, const Manifest &manifest,
                       const io::SafetensorsFile &weights, const std::string &name) {
  for (const Manifest::Parameter &parameter : manifest.parameters)
    if (parameter.file == name)
      ZC_RETURN_IF_ERROR(patch(write, fileSize, parameter, weights));
  return Status::success();
}

/// The model file or one of its external files, copied and patched, not yet in place.
static Result<io::OutputFile> patchedCopy(const Manifest &manifest, const io::SafetensorsFile &weights,
                                          const io::File &original, const std::string &name, const std::string &path) {
  auto out = io::OutputFile::create(path);
  if (!out)
    return out.error();
  ZC_RETURN_IF_ERROR(io::copyInto(*out, original));
  Write write = [&](const void *data, int64_t count, int64_t offset) { return out->writeAt(data, count, offset); };
  ZC_RETURN_IF_ERROR(patchAll(write, out->size(), manifest, weights, name));
  return out;
}

/// As patchedCopy, of the model, which calls its external files by other names then: it passes through memory.
static Result<io::OutputFile> renamedCopy(const Manifest &manifest, const io::SafetensorsFile &weights,
                                          const io::File &original, const std::string &name, const std::string &path,
                                          const std::map<std::string, std::string> &names) {
  std::string bytes(size_t(original.size()), '\0');
  ZC_RETURN_IF_ERROR(original.readAt(bytes.data(), original.size(), 0));
  Write write = [&](const void *data, int64_t count, int64_t offset) {
    std::memcpy(bytes.data() + offset, data, size_t(count));
    return Status::success();
  };
  ZC_RETURN_IF_ERROR(patchAll(write, original.size(), manifest, weights, name));
  auto renamed = withExternalNames(bytes, names);
  if (!renamed)
    return renamed.error();
  auto out = io::OutputFile::create(path);
  if (!out)
    return out.error();
  ZC_RETURN_IF_ERROR(out->write(renamed->data(), int64_t(renamed->size())));
  return out;
}

/// Names of the external files: those that hold parameters, and those of other initializers of `file`, the model that
/// is called `model`: tables, say, or what no node reads.
static Result<std::vector<std::string>> externalFiles(const Manifest &manifest, const std::string &model,
                                                      const io::File &file) {
  std::vector<std::string> names;
  auto add = [&](const std::string &name) {
    if (!name.empty() && name != model && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const Manifest::Parameter &parameter : manifest.parameters) {
    if (isChanged(parameter) && parameter.file.empty())
      return makeError(Code::unsupported, 922,
                       "parameter \"" + parameter.name + "\" has no bytes in the model's files that could be replaced",
                       "", "export with --safetensors");
    // Tied names are initializers of their own in the file, untied uses share one: neither can be patched in place.
    bool shared = !parameter.tied.empty();
    for (const Manifest::Parameter &other : manifest.parameters)
      shared |= &other != &parameter && other.file == parameter.file && other.offset == parameter.offset &&
                parameter.bytes > 0 && !parameter.file.empty();
    if (isChanged(parameter) && shared)
      return makeError(Code::unsupported, 924,
                       "parameter \"" + parameter.name + "\" was tied or untied when compiling: the model's own " +
                           "initializers cannot hold it",
                       "", "export with --safetensors");
    add(parameter.file);
  }
  if (auto inGraph = readModelNames(file)) // of a model without initializers nothing more is known
    for (const auto &[initializer, bytes] : inGraph->initializers)
      add(bytes.file);
  return names;
}

/// What external files are called beside `path`: as before, but in the original's own folder after the new model.
static std::map<std::string, std::string> namesBeside(const std::string &path, const std::string &originalFolder,
                                                      const std::vector<std::string> &names) {
  std::error_code none;
  const bool isOwnFolder = std::filesystem::equivalent(io::folderOf(path), originalFolder, none);
  const std::string base = io::fileNameOf(path) + ".data";
  std::map<std::string, std::string> result;
  for (const std::string &name : names)
    result[name] = !isOwnFolder ? name : names.size() == 1 ? base : base + "." + std::to_string(result.size() + 1);
  return result;
}

Status exportOnnx(const OpenCheckpoint &checkpoint, const std::string &path, const std::string &model) {
  const auto &[manifest, weights] = checkpoint;
  const std::string original = model.empty() ? manifest.modelPath : model;
  const std::string inner = io::fileNameOf(manifest.modelPath), from = io::folderOf(original), to = io::folderOf(path);
  auto file = openModel(original, manifest.modelBytes, manifest.modelHash);
  if (!file)
    return file.error();
  auto files = externalFiles(manifest, inner, *file);
  if (!files)
    return files.error();
  const std::map<std::string, std::string> names = namesBeside(path, from, *files);
  std::vector<NamedPath> inputs = filesOf(manifest), outputs = {written("--onnx", path, FileKind::onnx)};
  inputs.push_back({"model", original});
  for (const auto &[name, target] : names) {
    inputs.push_back({"model", from + "/" + name});
    outputs.push_back(written("--onnx", to + "/" + target, io::kindOf(from + "/" + name)));
  }
  ZC_RETURN_IF_ERROR(checkOutputs(inputs, outputs));
  std::vector<io::OutputFile> outs;
  bool isRenamed = false;
  for (const auto &[name, target] : names) {
    auto external = io::File::openBeneath(from, name);
    if (!external)
      return external.error();
    ZC_RETURN_IF_ERROR(io::makeFolder(io::folderOf(to + "/" + target)));
    auto out = patchedCopy(manifest, weights, *external, name, to + "/" + target);
    if (!out)
      return out.error();
    outs.push_back(std::move(*out));
    isRenamed |= name != target;
  }
  auto out = isRenamed ? renamedCopy(manifest, weights, *file, inner, path, names)
                       : patchedCopy(manifest, weights, *file, inner, path);
  if (!out)
    return out.error();
  // The model last: whoever finds it finds its data.
  for (io::OutputFile &each : outs)
    ZC_RETURN_IF_ERROR(each.commit());
  return out->commit();
}

} // namespace zc::train
