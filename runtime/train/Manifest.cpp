#include "runtime/train/Manifest.h"

#include "runtime/io/File.h"
#include "runtime/io/Folder.h"
#include "runtime/io/Hash.h"

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace zc::train {

using Json = nlohmann::json;

static constexpr int64_t kFormat = 3;
static constexpr int64_t kMaxManifest = int64_t(4) << 30; // 40 TB of state in pieces

std::string fileOf(State state) { return std::string(nameOf(state)) + ".safetensors"; }
std::string ownFileOf(int64_t rank) { return "rank-" + std::to_string(rank) + ".safetensors"; }

//===- Writing -----------------------------------------------------------------===//

static Json toJson(const Manifest::Parameter &parameter) {
  Json entry = {{"name", parameter.name}, {"trainable", parameter.trainable}};
  if (parameter.buffer)
    entry["buffer"] = true;
  if (!parameter.file.empty())
    entry["source"] = {{"file", parameter.file},
                       {"offset", parameter.offset},
                       {"bytes", parameter.bytes},
                       {"type", std::string(nameOf(parameter.type))}};
  if (!parameter.tied.empty())
    entry["tied"] = parameter.tied;
  if (parameter.lrScale)
    entry["lr_scale"] = *parameter.lrScale;
  if (parameter.weightDecay)
    entry["weight_decay"] = *parameter.weightDecay;
  return entry;
}

static Json toJson(const Manifest::Tensor &tensor) {
  Json pieces = Json::array();
  for (const Manifest::Piece &piece : tensor.pieces)
    pieces.push_back({piece.first, piece.count, piece.offset, io::hexOf(piece.hash)});
  return {{"name", tensor.name},
          {"file", tensor.file},
          {"type", std::string(nameOf(tensor.type.dtype))},
          {"shape", tensor.type.dims},
          {"pieces", std::move(pieces)}};
}

static Json toJson(const Mesh &mesh) {
  Json axes = Json::array();
  for (const MeshAxis &axis : mesh.axes())
    axes.push_back({{"name", axis.name}, {"size", axis.size}, {"data", axis.isData}});
  return axes;
}

static Json toJson(const Manifest::Strategy &plan) {
  return {
      {"hash", io::hexOf(plan.hash)}, {"mesh", toJson(plan.mesh)},         {"stage", plan.stage},
      {"precision", plan.precision},  {"accumulation", plan.accumulation}, {"samples_per_step", plan.samplesPerStep},
      {"delayed", plan.delayed},      {"residuals", plan.hasResiduals},    {"command", plan.command}};
}

static Json toJson(const planpb::Optimizer &optimizer, int64_t warmup) {
  return {{"rule", optimizer.rule()},
          {"schedule", optimizer.lr_schedule()},
          {"warmup", warmup},
          {"lr", optimizer.lr()},
          {"beta1", optimizer.beta1()},
          {"beta2", optimizer.beta2()},
          {"eps", optimizer.eps()},
          {"weight_decay", optimizer.weight_decay()},
          {"momentum", optimizer.momentum()},
          {"max_norm", optimizer.max_norm()}};
}

static Json toJson(const LossScaleState &scale) {
  return {{"scale", scale.scale},
          {"hysteresis", scale.hysteresis},
          {"last_overflow", scale.lastOverflow},
          {"skipped", scale.skipped},
          {"in_a_row", scale.inARow}};
}

static Json toJson(const StepRecord &last) {
  auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  return {{"loss", number(last.loss)},
          {"grad_norm", number(last.gradNorm.value_or(NAN))},
          {"lr", last.lr},
          {"skipped", last.skipped}};
}

static Json toJson(const EvalHistory &history) {
  auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  return {{"fingerprint", io::hexOf(history.data)}, {"step", history.step},          {"loss", number(history.loss)},
          {"best", number(history.best)},           {"best_step", history.bestStep}, {"since", history.since}};
}

/// The text's last member, which is no part of what it hashes.
static std::string seal(std::string_view text) { return ",\n \"xxh3\": \"" + io::hexOf(io::hashOf(text)) + "\"\n}\n"; }

std::string toJson(const Manifest &manifest) {
  Json files = Json::object(), tensors = Json::array(), parameters = Json::array();
  for (const auto &[name, file] : manifest.files)
    files[name] = {{"bytes", file.bytes}, {"head", file.head}, {"xxh3", io::hexOf(file.hash)}};
  for (const Manifest::Tensor &tensor : manifest.tensors)
    tensors.push_back(toJson(tensor));
  for (const Manifest::Parameter &parameter : manifest.parameters)
    parameters.push_back(toJson(parameter));
  const Manifest::Data &data = manifest.data;
  Json all = {{"format", kFormat},
              {"producer", "zero-run 0.1.0"},
              {"step", manifest.step},
              {"seed", manifest.seed},
              {"plan", toJson(manifest.plan)},
              {"optimizer", toJson(manifest.optimizer, manifest.warmup)},
              {"data",
               {{"fingerprint", io::hexOf(data.fingerprint)},
                {"samples", data.samples},
                {"shuffle", data.shuffle},
                {"shift_labels", data.shiftLabels},
                {"position", data.position}}},
              {"last", toJson(manifest.last)},
              {"model",
               {{"path", manifest.modelPath}, {"bytes", manifest.modelBytes}, {"xxh3", io::hexOf(manifest.modelHash)}}},
              {"files", std::move(files)},
              {"tensors", std::move(tensors)},
              {"parameters", std::move(parameters)}};
  if (manifest.products != 0)
    all["products"] = io::hexOf(manifest.products);
  if (const auto &scale = manifest.lossScale)
    all["loss_scale"] = toJson(*scale);
  if (const auto &evaluations = manifest.evaluations)
    all["evaluations"] = toJson(*evaluations);
  std::string text = all.dump(1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2); // "\n}"
  return text + seal(text);
}

//===- Reading -----------------------------------------------------------------===//

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
  /// A number, or what JSON has not: not finite.
  double realOrNan(const Json &object, const char *key) {
    return at(object, key).is_null() && problem.empty() ? NAN : real(object, key);
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
  parameter.buffer = json.is_object() && json.contains("buffer") && reader.truth(json, "buffer");
  for (auto [key, own] : {std::pair("lr_scale", &parameter.lrScale), std::pair("weight_decay", &parameter.weightDecay)})
    if (json.is_object() && json.contains(key))
      *own = reader.real(json, key);
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

Manifest::Piece readPiece(Reader &reader, const Json &json) {
  Manifest::Piece piece;
  if (!json.is_array() || json.size() != 4)
    return reader.wrong("pieces"), piece;
  uint64_t *numbers[] = {&piece.first, &piece.count, &piece.offset};
  for (size_t i = 0; i < 3; ++i)
    if (json[i].is_number_unsigned() && json[i].get<uint64_t>() < uint64_t(1) << 60)
      *numbers[i] = json[i].get<uint64_t>();
    else
      reader.wrong("pieces");
  piece.hash = reader.hash({{"pieces", json[3]}}, "pieces");
  return piece;
}

Manifest::Tensor readTensor(Reader &reader, const Json &json) {
  Manifest::Tensor tensor;
  tensor.name = reader.text(json, "name");
  tensor.file = reader.text(json, "file");
  if (auto type = dtypeFromName(reader.text(json, "type")))
    tensor.type.dtype = *type;
  else
    reader.wrong("type");
  const Json &shape = reader.at(json, "shape"), &pieces = reader.at(json, "pieces");
  if (!shape.is_array() || !pieces.is_array())
    return reader.wrong("shape"), tensor;
  for (const Json &dim : shape)
    tensor.type.dims.push_back(dim.is_number_unsigned() ? dim.get<int64_t>() : (reader.wrong("shape"), 0));
  for (const Json &piece : pieces)
    tensor.pieces.push_back(readPiece(reader, piece));
  return tensor;
}

Mesh readMesh(Reader &reader, const Json &json) {
  std::vector<MeshAxis> axes;
  for (const Json &axis : json) {
    int64_t size = reader.count(axis, "size");
    axes.push_back({reader.text(axis, "name"), int(std::min<int64_t>(size, INT32_MAX)), reader.truth(axis, "data")});
  }
  if (!json.is_array() || !Mesh::problem(axes).empty())
    return reader.wrong("mesh"), Mesh();
  return Mesh(std::move(axes));
}

Manifest::Strategy readStrategy(Reader &reader, const Json &json) {
  Manifest::Strategy plan;
  plan.hash = reader.hash(json, "hash");
  plan.mesh = readMesh(reader, reader.at(json, "mesh"));
  plan.stage = reader.count(json, "stage");
  plan.precision = reader.text(json, "precision");
  plan.accumulation = reader.count(json, "accumulation");
  plan.samplesPerStep = reader.count(json, "samples_per_step");
  plan.delayed = reader.truth(json, "delayed");
  plan.hasResiduals = reader.truth(json, "residuals");
  if (json.is_object() && json.contains("command"))
    plan.command = reader.text(json, "command");
  return plan;
}

void readOptimizer(Reader &reader, const Json &json, Manifest &manifest) {
  planpb::Optimizer &optimizer = manifest.optimizer;
  optimizer.set_rule(reader.text(json, "rule"));
  optimizer.set_lr_schedule(reader.text(json, "schedule"));
  manifest.warmup = reader.count(json, "warmup");
  optimizer.set_lr(reader.real(json, "lr"));
  optimizer.set_beta1(reader.real(json, "beta1"));
  optimizer.set_beta2(reader.real(json, "beta2"));
  optimizer.set_eps(reader.real(json, "eps"));
  optimizer.set_weight_decay(reader.real(json, "weight_decay"));
  optimizer.set_momentum(reader.real(json, "momentum"));
  optimizer.set_max_norm(reader.real(json, "max_norm"));
}

void readData(Reader &reader, const Json &json, Manifest::Data &data) {
  data.fingerprint = reader.hash(json, "fingerprint");
  data.samples = reader.count(json, "samples");
  data.shuffle = reader.truth(json, "shuffle");
  data.shiftLabels = reader.truth(json, "shift_labels");
  data.position = reader.count(json, "position");
}

void readLast(Reader &reader, const Json &json, StepRecord &last) {
  last.loss = reader.realOrNan(json, "loss");
  if (double norm = reader.realOrNan(json, "grad_norm"); !std::isnan(norm))
    last.gradNorm = norm;
  last.lr = reader.real(json, "lr");
  last.skipped = reader.truth(json, "skipped");
}

void readFiles(Reader &reader, const Json &files, Manifest &manifest) {
  if (!files.is_object())
    return reader.wrong("files");
  for (const auto &item : files.items())
    manifest.files[item.key()] = {reader.number(item.value(), "bytes"), reader.number(item.value(), "head"),
                                  reader.hash(item.value(), "xxh3")};
}

void readAll(Reader &reader, const Json &json, Manifest &manifest) {
  manifest.step = reader.count(json, "step");
  manifest.seed = reader.number(json, "seed");
  manifest.plan = readStrategy(reader, reader.at(json, "plan"));
  readOptimizer(reader, reader.at(json, "optimizer"), manifest);
  readData(reader, reader.at(json, "data"), manifest.data);
  readLast(reader, reader.at(json, "last"), manifest.last);
  manifest.last.step = manifest.step;
  if (json.contains("products"))
    manifest.products = reader.hash(json, "products");
  if (json.contains("loss_scale")) {
    const Json &scale = json["loss_scale"];
    manifest.lossScale = {reader.real(scale, "scale"), reader.count(scale, "hysteresis"),
                          reader.count(scale, "last_overflow"), reader.count(scale, "skipped"),
                          reader.count(scale, "in_a_row")};
  }
  if (json.contains("evaluations")) {
    const Json &from = json["evaluations"];
    manifest.evaluations = {reader.hash(from, "fingerprint"), reader.count(from, "step"),
                            reader.realOrNan(from, "loss"),   reader.realOrNan(from, "best"),
                            reader.count(from, "best_step"),  reader.count(from, "since")};
  }
  const Json &model = reader.at(json, "model");
  manifest.modelPath = reader.text(model, "path");
  manifest.modelBytes = reader.number(model, "bytes");
  manifest.modelHash = reader.hash(model, "xxh3");
  readFiles(reader, reader.at(json, "files"), manifest);
  const Json &tensors = reader.at(json, "tensors"), &parameters = reader.at(json, "parameters");
  if (!tensors.is_array() || !parameters.is_array())
    return reader.wrong("tensors");
  for (const Json &tensor : tensors)
    manifest.tensors.push_back(readTensor(reader, tensor));
  for (const Json &parameter : parameters)
    manifest.parameters.push_back(readParameter(reader, parameter));
}

Error broken(const std::string &path, const std::string &why) {
  return makeError(Code::corrupt, 911, "not a whole checkpoint: " + why, path);
}

/// The file's text. What is not there is a checkpoint that never was whole; what cannot be read may be one.
Result<std::string> readText(const std::string &folder, const std::string &path) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    Error error = io::errnoError(Code::badInput, 927, "cannot open", folder, errno);
    if (::lstat(folder.c_str(), &info) == 0)
      error.help = "it is a symbolic link to what is not there: bring that back, or remove the link";
    return error;
  }
  if (::lstat(path.c_str(), &info) != 0)
    return errno == ENOENT || errno == ENOTDIR ? broken(path, "it has no manifest")
                                               : io::errnoError(Code::io, 928, "cannot read", path, errno);
  if (!S_ISREG(info.st_mode))
    return broken(path, "the manifest is no regular file");
  auto file = io::File::open(path);
  if (!file) {
    Error error = file.error();
    error.code = Code::io;
    return error;
  }
  if (file->size() > kMaxManifest)
    return broken(path, "the manifest has " + std::to_string(file->size()) + " bytes");
  std::string text(size_t(file->size()), char(0));
  ZC_RETURN_IF_ERROR(file->readAt(text.data(), file->size(), 0));
  return text;
}

/// Whether it nests deeper than we ever write. (The library's callback could tell, but takes time by the square.)
bool nestsDeeper(const std::string &text, int most) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString && c == '\\')
      ++i;
    else if (c == '"')
      inString = !inString;
    else if (!inString && (c == '[' || c == '{') && ++depth > most)
      return true;
    else if (!inString && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

bool isSealed(const std::string &text) {
  size_t length = seal("").size();
  return text.size() > length &&
         text.compare(text.size() - length, length, seal(std::string_view(text).substr(0, text.size() - length))) == 0;
}

/// "step-12", "step-12.abandoned": 12; nothing of other names, which may be anybody's.
std::optional<int64_t> stepInName(const std::string &folder) {
  std::string name = io::fileNameOf(folder);
  if (name.compare(0, 5, "step-") != 0)
    return std::nullopt;
  size_t end = name.find_first_not_of("0123456789", 5);
  std::string digits = name.substr(5, end == std::string::npos ? end : end - 5);
  bool ours = end == std::string::npos || name[end] == '.';
  return ours && !digits.empty() && digits.size() < 18 ? std::optional<int64_t>(std::stoll(digits)) : std::nullopt;
}

} // namespace

Result<Manifest> readManifest(const std::string &given) {
  const std::string folder = io::withoutSlash(given);
  std::string path = folder + "/" + io::kManifestFile;
  auto text = readText(folder, path);
  if (!text)
    return text.error();
  Json json = nestsDeeper(*text, 8) ? Json(Json::value_t::discarded) : Json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return broken(path, "the manifest is not valid JSON");
  Reader reader;
  uint64_t format = reader.number(json, "format");
  bool sealed = isSealed(*text);
  if (sealed ? format != kFormat : format == 1 && !json.contains("xxh3"))
    return makeError(Code::mismatch, 912,
                     "checkpoint format " + std::to_string(format) + " is not known; this is format " +
                         std::to_string(kFormat),
                     path,
                     format < kFormat ? "end the run with the zero-run that began it, or start another one from its "
                                        "weights with --weights " +
                                            folder + "/" + fileOf(State::weights)
                                      : "continue with the newer zero-run that wrote it");
  if (!sealed)
    return broken(path, "the manifest is not what was written there");
  Manifest manifest;
  manifest.folder = folder;
  readAll(reader, json, manifest);
  if (!reader.problem.empty())
    return broken(path, "\"" + reader.problem + "\" in the manifest is missing or wrong");
  if (auto step = stepInName(folder); step && *step != manifest.step)
    return broken(path, "the manifest is of step " + std::to_string(manifest.step));
  return manifest;
}

Manifest describeRun(const planpb::Plan &plan) {
  Manifest manifest;
  manifest.plan.mesh = meshOf(plan);
  manifest.plan.stage = plan.zero_stage();
  manifest.plan.precision = plan.precision();
  manifest.plan.accumulation = plan.accumulation();
  manifest.plan.delayed = plan.has_delay();
  manifest.plan.command = plan.command();
  for (const planpb::Bucket &bucket : plan.buckets())
    manifest.plan.hasResiduals |= bucket.residual_slices_size() > 0;
  manifest.optimizer = plan.optimizer();
  manifest.modelPath = plan.model().path();
  manifest.modelBytes = plan.model().bytes();
  manifest.modelHash = plan.model().hash();
  for (const Whole &whole : wholesOf(plan)) {
    const planpb::Parameter &parameter = *whole.parts.front(); // where the whole begins
    Manifest::Parameter entry;
    entry.name = whole.name;
    entry.trainable = parameter.role() == planpb::TRAINABLE;
    entry.buffer = parameter.role() == planpb::BUFFER;
    if (entry.trainable) {
      entry.lrScale = parameter.has_lr_scale() ? parameter.lr_scale() : 1;
      entry.weightDecay = parameter.has_weight_decay() ? parameter.weight_decay() : plan.optimizer().weight_decay();
    }
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
