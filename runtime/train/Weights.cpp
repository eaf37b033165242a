#include "runtime/train/Weights.h"

#include "base/Workers.h"
#include "runtime/io/Folder.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Convert.h"
#include "runtime/train/Filled.h"
#include "runtime/train/Resume.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

namespace zc::train {

static Error changed(const std::string &path) {
  return makeError(Code::mismatch, 903, "\"" + path + "\" has changed since it was compiled", "",
                   "compile the model again, or put the old file back");
}

Result<io::File> openModel(const std::string &path, uint64_t bytes, std::optional<uint64_t> hash) {
  auto file = io::File::open(path);
  if (!file) {
    Error error = file.error();
    error.note = "the weights are read from the model that the plan was compiled from";
    return error;
  }
  bool same = uint64_t(file->size()) == bytes;
  if (same && hash) {
    auto now = io::hashOf(*file);
    if (!now)
      return now.error();
    same = *now == *hash;
  }
  if (!same)
    return changed(path);
  return file;
}

/// Files of a model, each opened once.
namespace {
class ModelFiles {
public:
  ModelFiles(const planpb::Model &model, bool whole)
      : model(model), folder(io::folderOf(model.path())),
        hash(whole ? std::optional<uint64_t>(model.hash()) : std::nullopt) {}

  Result<std::shared_ptr<io::File>> get(const std::string &name) {
    auto &file = files[name];
    if (file)
      return file;
    auto opened =
        name == io::fileNameOf(model.path()) ? openModel(model.path(), model.bytes(), hash) : openExternal(name);
    if (!opened)
      return opened.error();
    file = std::make_shared<io::File>(std::move(*opened));
    return file;
  }

private:
  Result<io::File> openExternal(const std::string &name) {
    auto file = io::File::openBeneath(folder, name);
    for (const planpb::ModelFile &known : model.external()) {
      if (!file || known.file() != name)
        continue;
      bool same = uint64_t(file->size()) == known.bytes();
      if (same && hash) {
        auto now = io::fingerprintOf(*file);
        if (!now)
          return now.error();
        same = *now == known.hash();
      }
      if (!same)
        return changed(file->path());
    }
    return file;
  }

  const planpb::Model &model;
  std::string folder;
  std::optional<uint64_t> hash; ///< that the model must have; nothing: only sizes are compared
  std::map<std::string, std::shared_ptr<io::File>> files;
};
} // namespace

static Error wrongSize(const planpb::Parameter &parameter, int64_t needed, uint64_t has) {
  return makeError(Code::corrupt, 904,
                   "parameter \"" + parameter.name() + "\" needs " + std::to_string(needed) +
                       " bytes but its source has " + std::to_string(has));
}

Result<InitialValues> InitialValues::fromModel(const planpb::Plan &plan, bool wholeModel) {
  InitialValues values;
  ModelFiles files(plan.model(), wholeModel);
  // External data may lie beside an edited model: the model itself is checked even when all weights are outside it.
  for (const planpb::Parameter &parameter : plan.parameters())
    if (parameter.has_source()) {
      auto model = files.get(io::fileNameOf(plan.model().path()));
      if (!model)
        return model.error();
      break;
    }
  for (const planpb::Parameter &parameter : plan.parameters()) {
    TensorType type = parameter.has_cut() ? wholeTypeOf(plan, parameter) : typeOf(plan, parameter);
    Entry entry;
    entry.type = type.dtype;
    if (parameter.initial_case() == planpb::Parameter::kSource) {
      const planpb::Source &source = parameter.source();
      entry.type = dtypeOf(source.type());
      int64_t needed = type.numElements() * sizeOf(entry.type);
      if (uint64_t(needed) != source.bytes())
        return wrongSize(parameter, needed, source.bytes());
      auto file = files.get(source.file());
      if (!file)
        return file.error();
      uint64_t size = uint64_t((*file)->size());
      if (source.bytes() > size || source.offset() > size - source.bytes())
        return makeError(Code::badInput, 905,
                         "parameter \"" + parameter.name() + "\" lies at byte " + std::to_string(source.offset()) +
                             ", beyond the end of the file",
                         (*file)->path());
      entry.file = *file;
      entry.offset = int64_t(source.offset());
    } else {
      if (int64_t(parameter.inline_().size()) != type.numBytes())
        return wrongSize(parameter, type.numBytes(), parameter.inline_().size());
      entry.inlined = &parameter.inline_();
    }
    values.entries.push_back(std::move(entry));
  }
  return values;
}

/// The parameter's tensor, or the one it is part of, under its own or a tied name.
static const io::SafetensorsEntry *lookUp(const io::SafetensorsFile &table, const planpb::Parameter &parameter) {
  const io::SafetensorsEntry *found = table.find(wholeNameOf(parameter));
  for (int i = 0; !found && i < parameter.tied_size(); ++i)
    found = table.find(parameter.tied(i));
  return found;
}

/// What the plan's model says of names; nothing where it is not there.
static ModelNames modelNames(const planpb::Plan &plan) {
  auto file = openModel(plan.model().path(), plan.model().bytes(), std::nullopt);
  auto names = file ? readModelNames(*file) : Result<ModelNames>(file.error());
  return names ? std::move(*names) : ModelNames();
}

Result<bool> InitialValues::findCopy(const io::SafetensorsFile &table, const ModelNames &names,
                                     const planpb::Plan &plan, const planpb::Parameter &parameter, Entry &entry) {
  auto origin = names.copyOf.find(wholeNameOf(parameter));
  const io::SafetensorsEntry *found = origin == names.copyOf.end() ? nullptr : table.find(origin->second);
  TensorType type = wholeTypeOf(plan, parameter);
  if (!found || type.dims.size() != 2 || found->type.dims != std::vector<int64_t>{type.dims[1], type.dims[0]} ||
      !convertible(found->type.dtype, type.dtype))
    return false;
  std::string rows(size_t(found->type.numBytes()), char(0));
  entry.held = std::make_shared<std::string>(rows.size(), char(0));
  ZC_RETURN_IF_ERROR(table.file().readAt(rows.data(), int64_t(rows.size()), found->offset));
  turn(rows.data(), type.dims[1], type.dims[0], sizeOf(found->type.dtype), entry.held->data());
  entry.type = found->type.dtype;
  entry.inlined = entry.held.get();
  entry.offset = readFrom(parameter) * sizeOf(entry.type);
  return true;
}

/// May a parameter that the file does not have be the model's own? What trains may not; nor may a weight of a plan that
/// trains nothing, and so calls all of them frozen: checkpoints and exports have those that were frozen, too.
static bool mayBeModels(const planpb::Plan &plan, const planpb::Parameter &parameter, const ModelNames &names) {
  if (names.initializers.empty() || parameter.role() == planpb::TRAINABLE)
    return false;
  return !plan.forward_only() || parameter.role() == planpb::BUFFER || names.others.count(wholeNameOf(parameter));
}

/// A file of a checkpoint's that holds other state. What a delayed update has published are weights too, of the step
/// before.
static Status checkHoldsWeights(const io::SafetensorsFile &table, const std::string &path) {
  auto state = table.metadata().find(kStateNote);
  if (state == table.metadata().end() || state->second == nameOf(State::weights) ||
      state->second == nameOf(State::published))
    return Status::success();
  return makeError(Code::mismatch, 936,
                   "\"" + path + "\" holds no weights but the \"" + state->second + "\" of a checkpoint", "",
                   "give its folder, \"" + io::folderOf(path) + "\"");
}

static Error misfitError(const std::vector<std::string> &problems, size_t parameters, const std::string &path) {
  Error error = makeError(Code::mismatch, 906,
                          std::to_string(problems.size()) + " of " + std::to_string(parameters) +
                              " parameters do not fit the weights",
                          path);
  for (size_t i = 0; i < problems.size() && i < 5; ++i)
    error.note += (i ? ", " : "") + problems[i];
  if (problems.size() > 5)
    error.note += ", ...";
  return error;
}

Result<InitialValues> InitialValues::fromSafetensors(const planpb::Plan &plan, io::SafetensorsFile table) {
  const std::string path = table.file().path();
  ZC_RETURN_IF_ERROR(checkHoldsWeights(table, path));
  InitialValues values;
  std::vector<std::string> problems;
  std::optional<ModelNames> names;
  for (const planpb::Parameter &parameter : plan.parameters()) {
    TensorType type = wholeTypeOf(plan, parameter);
    Entry entry;
    const std::string &name = wholeNameOf(parameter);
    bool isFirst = firstOf(parameter) == 0; // of the parts of one tensor, which fail together
    if (const io::SafetensorsEntry *found = lookUp(table, parameter)) {
      entry.type = found->type.dtype;
      entry.offset = found->offset + readFrom(parameter) * sizeOf(entry.type);
      if ((found->type.dims != type.dims || !convertible(entry.type, type.dtype)) && isFirst)
        problems.push_back("\"" + name + "\" has another shape or type");
    } else {
      if (!names)
        names = modelNames(plan);
      auto copied = findCopy(table, *names, plan, parameter, entry);
      if (!copied)
        return copied.error();
      entry.isModels = !*copied && mayBeModels(plan, parameter, *names);
      if (!*copied && !entry.isModels && isFirst)
        problems.push_back("\"" + name + "\" is missing");
    }
    values.entries.push_back(std::move(entry));
  }
  if (!problems.empty())
    return misfitError(problems, wholesOf(plan).size(), path);
  auto file = std::make_shared<io::File>(table.takeFile());
  for (Entry &entry : values.entries)
    if (!entry.inlined)
      entry.file = file;
  return values.withModels(plan);
}

/// The entries that are the model's.
Result<InitialValues> InitialValues::withModels(const planpb::Plan &plan) {
  bool any = std::any_of(entries.begin(), entries.end(), [](const Entry &entry) { return entry.isModels; });
  if (!any)
    return std::move(*this);
  auto model = fromModel(plan, false);
  if (!model)
    return model;
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].isModels)
      entries[i] = model->entries[i];
  return std::move(*this);
}

Result<InitialValues> InitialValues::from(const planpb::Plan &plan, const std::string &path,
                                          const std::function<void(const std::string &)> &passed) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    auto table = io::SafetensorsFile::open(path);
    if (table)
      return fromSafetensors(plan, std::move(*table));
    Error error = table.error();
    if (error.number != 831) // no such file at all
      return error;
    error.help = "weights are read from a safetensors file, or the folder of a checkpoint or a run";
    return error;
  }
  auto checkpoint = openCheckpoint(path, passed);
  return checkpoint ? fromSafetensors(plan, std::move(checkpoint->weights)) : checkpoint.error();
}

Status InitialValues::read(int parameter, int64_t first, int64_t count, DType as, void *to) const {
  const Entry &entry = entries[size_t(parameter)];
  int64_t size = sizeOf(entry.type);
  if (entry.inlined) {
    convert(entry.inlined->data() + entry.offset + first * size, entry.type, to, as, count);
    return Status::success();
  }
  if (entry.type == as)
    return entry.file->readAt(to, count * size, entry.offset + first * size);
  constexpr int64_t kChunk = 65536;
  std::vector<char> buffer(size_t(std::min(count, kChunk) * size));
  auto *out = static_cast<char *>(to);
  for (int64_t done = 0; done < count; done += kChunk) {
    int64_t now = std::min(kChunk, count - done);
    ZC_RETURN_IF_ERROR(entry.file->readAt(buffer.data(), now * size, entry.offset + (first + done) * size));
    convert(buffer.data(), entry.type, out + done * sizeOf(as), as, now);
  }
  return Status::success();
}

Result<uint64_t> InitialValues::fingerprint(const planpb::Plan &plan) const {
  constexpr int64_t kSample = 16; // elements
  io::Hasher hash;
  char sample[kSample * sizeof(double)];
  for (int i = 0; i < plan.parameters_size(); ++i) {
    const planpb::Parameter &parameter = plan.parameters(i);
    const TensorType type = parameter.has_cut() ? wholeTypeOf(plan, parameter) : typeOf(plan, parameter);
    const int64_t all = type.numElements(), count = std::min(all, kSample);
    for (int64_t first : {int64_t(0), (all - count) / 2, all - count}) {
      ZC_RETURN_IF_ERROR(read(i, first, count, type.dtype, sample));
      hash.add(sample, count * sizeOf(type.dtype));
    }
  }
  return hash.value();
}

/// Bytes that pass through memory at a time on their way to a slice.
static constexpr int64_t kChunk = 1 << 20;

/// `piece` of parameter `index`, which `chunk` has room for: of one that is cut as many reads as it has runs there.
static Status loadPiece(RankExecutor &executor, const InitialValues &values, int index, const Store &store, Piece piece,
                        std::vector<char> &chunk) {
  const planpb::Parameter &parameter = executor.plan().parameters(index);
  const int64_t size = sizeOf(store.type);
  if (!parameter.has_cut()) {
    ZC_RETURN_IF_ERROR(values.read(index, piece.first, piece.count, store.type, chunk.data()));
  } else {
    std::fill_n(chunk.begin(), piece.count * size, char(0));
    for (const Piece &run : inWhole(executor.plan(), meshOf(executor.plan()), parameter, piece, executor.rank()))
      ZC_RETURN_IF_ERROR(
          values.read(index, run.first, run.count, store.type, chunk.data() + (run.at - piece.at) * size));
  }
  return executor.writeSlice(store.slice, uint64_t(piece.at * size), chunk.data(), uint64_t(piece.count * size));
}

Status loadWeights(RankExecutor &executor, const InitialValues &values) {
  const planpb::Plan &plan = executor.plan();
  const Mesh mesh = meshOf(plan);
  struct Part {
    int parameter;
    Store store;
    Piece piece;
  };
  std::vector<Part> parts;
  Filled filled;
  for (int i = 0; i < plan.parameters_size(); ++i)
    for (const Store &store : storesOf(plan, plan.parameters(i))) {
      const Piece piece = pieceOf(plan, mesh, plan.parameters(i), store, executor.rank());
      const int64_t size = sizeOf(store.type), step = kChunk / size;
      filled.add(store.slice, piece.at * size, (piece.at + piece.count) * size);
      for (int64_t done = 0; done < piece.count; done += step)
        parts.push_back({i, store, {piece.first + done, std::min(step, piece.count - done), piece.at + done}});
    }
  ZC_RETURN_IF_ERROR(filled.clearRest(executor));
  std::vector<std::vector<char>> chunks(size_t(workersOf(plan)), std::vector<char>(size_t(kChunk)));
  return forEachOf(parts.size(), int(chunks.size()), [&](int worker, size_t i) {
    return loadPiece(executor, values, parts[i].parameter, parts[i].store, parts[i].piece, chunks[size_t(worker)]);
  });
}

} // namespace zc::train
