#include "runtime/base/File.h"
#include "runtime/io/File.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Layout.h"

#include <cinttypes>
#include <nlohmann/json.hpp>

namespace zc::train {

using Json = nlohmann::json;

static constexpr int64_t kFormat = 1;
static constexpr uint64_t kMaxManifest = 64 << 20;

static std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

std::string toJson(const Manifest &manifest) {
  Json files = Json::object(), parameters = Json::array();
  for (const auto &[name, file] : manifest.files)
    files[name] = {{"bytes", file.bytes}, {"xxh3", hex(file.hash)}};
  for (const Manifest::Parameter &parameter : manifest.parameters) {
    Json entry = {{"name", parameter.name}, {"trainable", parameter.trainable}};
    if (!parameter.file.empty())
      entry["source"] = {{"file", parameter.file},
                         {"offset", parameter.offset},
                         {"bytes", parameter.bytes},
                         {"type", std::string(nameOf(parameter.type))}};
    if (!parameter.tied.empty())
      entry["tied"] = parameter.tied;
    parameters.push_back(std::move(entry));
  }
  Json all = {
      {"format", kFormat},
      {"producer", "zero-run 0.1.0"},
      {"step", manifest.step},
      {"world_size", manifest.worldSize},
      {"plan_hash", hex(manifest.planHash)},
      {"seed", manifest.seed},
      {"data", {{"samples", manifest.samples}, {"shuffle", manifest.shuffle}}},
      {"model", {{"path", manifest.modelPath}, {"bytes", manifest.modelBytes}, {"xxh3", hex(manifest.modelHash)}}},
      {"files", std::move(files)},
      {"parameters", std::move(parameters)}};
  if (const auto &scale = manifest.lossScale)
    all["loss_scale"] = {{"scale", scale->scale},
                         {"hysteresis", scale->hysteresis},
                         {"last_overflow", scale->lastOverflow},
                         {"skipped", scale->skipped},
                         {"in_a_row", scale->inARow}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

/// Typed access to members; remembers the first that was missing or of another kind.
class Reader {
public:
  std::string problem;

  const Json &at(const Json &object, const char *key) {
    static const Json kNothing;
    if (object.is_object()) {
      auto found = object.find(key);
      if (found != object.end())
        return *found;
    }
    return wrong(key), kNothing;
  }
  uint64_t number(const Json &object, const char *key) {
    const Json &value = at(object, key);
    return value.is_number_unsigned() ? value.get<uint64_t>() : (wrong(key), 0);
  }
  int64_t count(const Json &object, const char *key) {
    uint64_t value = number(object, key);
    return value <= uint64_t(INT64_MAX) ? int64_t(value) : (wrong(key), 0);
  }
  double real(const Json &object, const char *key) {
    const Json &value = at(object, key);
    return value.is_number() ? value.get<double>() : (wrong(key), 0);
  }
  bool truth(const Json &object, const char *key) {
    const Json &value = at(object, key);
    return value.is_boolean() ? value.get<bool>() : (wrong(key), false);
  }
  std::string text(const Json &object, const char *key) {
    const Json &value = at(object, key);
    return value.is_string() ? value.get<std::string>() : (wrong(key), "");
  }
  uint64_t hash(const Json &object, const char *key) {
    std::string digits = text(object, key);
    if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      return wrong(key), 0;
    return std::strtoull(digits.c_str(), nullptr, 16);
  }
  void wrong(const char *key) {
    if (problem.empty())
      problem = key;
  }
};

Manifest::Parameter readParameter(Reader &reader, const Json &json) {
  Manifest::Parameter parameter;
  parameter.name = reader.text(json, "name");
  parameter.trainable = reader.truth(json, "trainable");
  if (json.is_object() && json.contains("source")) {
    const Json &source = json["source"];
    parameter.file = reader.text(source, "file");
    parameter.offset = reader.number(source, "offset");
    parameter.bytes = reader.number(source, "bytes");
    if (auto type = dtypeFromName(reader.text(source, "type")))
      parameter.type = *type;
    else
      reader.wrong("type");
  }
  if (json.is_object() && json.contains("tied"))
    for (const Json &name : json["tied"])
      if (name.is_string())
        parameter.tied.push_back(name.get<std::string>());
  return parameter;
}

void readAll(Reader &reader, const Json &json, Manifest &manifest) {
  manifest.step = reader.count(json, "step");
  manifest.worldSize = reader.count(json, "world_size");
  manifest.planHash = reader.hash(json, "plan_hash");
  manifest.seed = reader.number(json, "seed");
  const Json &data = reader.at(json, "data");
  manifest.samples = reader.count(data, "samples");
  manifest.shuffle = reader.truth(data, "shuffle");
  if (json.contains("loss_scale")) {
    const Json &scale = json["loss_scale"];
    manifest.lossScale = {reader.real(scale, "scale"), reader.count(scale, "hysteresis"),
                          reader.count(scale, "last_overflow"), reader.count(scale, "skipped"),
                          reader.count(scale, "in_a_row")};
  }
  const Json &model = reader.at(json, "model");
  manifest.modelPath = reader.text(model, "path");
  manifest.modelBytes = reader.number(model, "bytes");
  manifest.modelHash = reader.hash(model, "xxh3");
  const Json &files = reader.at(json, "files");
  if (!files.is_object())
    reader.wrong("files");
  else
    for (const auto &item : files.items())
      manifest.files[item.key()] = {reader.number(item.value(), "bytes"), reader.hash(item.value(), "xxh3")};
  const Json &parameters = reader.at(json, "parameters");
  if (!parameters.is_array())
    reader.wrong("parameters");
  else
    for (const Json &parameter : parameters)
      manifest.parameters.push_back(readParameter(reader, parameter));
}

Error broken(const std::string &path, const std::string &why) {
  return makeError(Code::corrupt, 911, "not a whole checkpoint: " + why, path);
}

} // namespace

Result<Manifest> readManifest(const std::string &folder) {
  std::string path = folder + "/manifest.json";
  auto text = readFile(path, kMaxManifest);
  if (!text)
    return text.error();
  // A callback that discards what nests deeper than we ever write.
  bool deep = false;
  auto shallow = [&](int depth, Json::parse_event_t, Json &) { return depth <= 8 || !(deep = true); };
  Json json = Json::parse(*text, shallow, false);
  if (deep || json.is_discarded() || !json.is_object())
    return broken(path, "the manifest is not valid JSON");
  Reader reader;
  uint64_t format = reader.number(json, "format");
  if (reader.problem.empty() && format != kFormat)
    return makeError(Code::mismatch, 912,
                     "checkpoint format " + std::to_string(format) + " is not known; this is format " +
                         std::to_string(kFormat),
                     path);
  Manifest manifest;
  manifest.folder = folder;
  readAll(reader, json, manifest);
  if (!reader.problem.empty())
    return broken(path, "\"" + reader.problem + "\" in the manifest is missing or wrong");
  return manifest;
}

Status verifyFiles(const Manifest &manifest) {
  for (int64_t rank = -1; rank < manifest.worldSize; ++rank) {
    std::string name = rank < 0 ? "weights.safetensors" : "rank-" + std::to_string(rank) + ".safetensors";
    if (!manifest.files.count(name))
      return broken(manifest.folder, "\"" + name + "\" is not listed");
  }
  for (const auto &[name, expected] : manifest.files) {
    auto file = io::File::openBeneath(manifest.folder, name);
    if (!file)
      return broken(manifest.folder, file.error().message);
    if (uint64_t(file->size()) != expected.bytes)
      return broken(file->path(),
                    "it has " + std::to_string(file->size()) + " bytes instead of " + std::to_string(expected.bytes));
    auto hash = io::hashOf(*file);
    if (!hash)
      return hash.error();
    if (*hash != expected.hash)
      return broken(file->path(), "its hash is " + hex(*hash) + " instead of " + hex(expected.hash));
  }
  return Status::success();
}

Manifest describeRun(const planpb::Plan &plan, uint64_t seed, int64_t samples, bool shuffle) {
  Manifest manifest;
  manifest.worldSize = plan.world_size();
  manifest.seed = seed;
  manifest.samples = samples;
  manifest.shuffle = shuffle;
  manifest.modelPath = plan.model().path();
  manifest.modelBytes = plan.model().bytes();
  manifest.modelHash = plan.model().hash();
  for (const Whole &whole : wholesOf(plan)) {
    const planpb::Parameter &parameter = *whole.parts.front(); // where the whole begins
    Manifest::Parameter entry;
    entry.name = whole.name;
    entry.trainable = parameter.role() == planpb::TRAINABLE;
    if (parameter.has_source()) {
      entry.file = parameter.source().file();
      entry.offset = parameter.source().offset();
      entry.type = dtypeOf(parameter.source().type());
      entry.bytes = uint64_t(whole.type.numElements() * sizeOf(entry.type));
    }
    entry.tied.assign(parameter.tied().begin(), parameter.tied().end());
    manifest.parameters.push_back(std::move(entry));
  }
  return manifest;
}

} // namespace zc::train
