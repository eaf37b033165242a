#include "runtime/train/Checkpoint.h"

#include "runtime/base/Failpoint.h"
#include "runtime/base/File.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/Weights.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace zc::train {

namespace fs = std::filesystem;

/// Bytes that pass through memory at a time, whatever the tier they are on.
static constexpr int64_t kChunk = 1 << 20;

/// Failpoints of a save, in its order: ckpt.write (a rank's own file), ckpt.manifest, ckpt.rename, ckpt.remove.
static Status passFault(const char *site, const std::string &path) {
  if (auto fault = failpoint(site); fault && fault->kind == FaultAction::Kind::error)
    return io::errnoError(Code::io, 916, "cannot save into", path, fault->errnum);
  return Status::success();
}

/// By name, so that runs whose plans lay parameters out differently write the same file.
static std::vector<Whole> sortedWholes(const planpb::Plan &plan) {
  std::vector<Whole> sorted = wholesOf(plan);
  std::sort(sorted.begin(), sorted.end(), [](const Whole &a, const Whole &b) { return a.name < b.name; });
  return sorted;
}

/// The file of all weights, which rank 0 writes.
static Result<io::SafetensorsWriter> createWeights(const planpb::Plan &plan, const std::string &path, int64_t step) {
  std::vector<io::SafetensorsWriter::Tensor> tensors;
  std::map<std::string, std::string> notes = {{"format", "pt"}, {"step", std::to_string(step)}};
  for (const Whole &whole : sortedWholes(plan)) {
    TensorType type = whole.type;
    type.dtype = exactStore(plan, *whole.parts.front()).type;
    tensors.push_back({whole.name, type});
    for (const std::string &alias : whole.parts.front()->tied())
      notes["tied." + alias] = whole.name;
  }
  return io::SafetensorsWriter::create(path, std::move(tensors), notes);
}

/// A parameter's elements in order. A piece that only one rank has goes to rank 0, which alone has a `writer`. `own`,
/// `chunk`: of saveWeights.
static Status appendParameter(RankExecutor &executor, Communicator &communicator, const planpb::Parameter &parameter,
                              std::vector<char> &chunk, io::SafetensorsWriter *writer, Status &own) {
  const planpb::Plan &plan = executor.plan();
  Store store = exactStore(plan, parameter);
  int64_t size = sizeOf(store.type);
  for (int owner = 0; owner < (store.sharded ? communicator.worldSize() : 1); ++owner) {
    Piece piece = pieceOf(plan, parameter, store, owner);
    for (int64_t done = 0; done < piece.count * size; done += kChunk) {
      int64_t now = std::min(kChunk, piece.count * size - done);
      if (communicator.rank() == owner && own.ok())
        own = executor.readSlice(store.slice, uint64_t(piece.at * size + done), chunk.data(), uint64_t(now));
      if (store.sharded && owner != 0)
        ZC_RETURN_IF_ERROR(communicator.sendToFirst({chunk.data(), uint64_t(now), owner}));
      if (writer && own.ok())
        own = writer->append(chunk.data(), now);
    }
  }
  return Status::success();
}

/// Every parameter, whole. `own` is this rank's part of the save: once it has failed nothing is read or written, but
/// pieces go on to be sent. Errors: of the communicator.
static Status saveWeights(RankExecutor &executor, Communicator &communicator, const std::string &path, int64_t step,
                          Status &own) {
  const planpb::Plan &plan = executor.plan();
  std::optional<io::SafetensorsWriter> writer;
  if (communicator.rank() == 0 && own.ok()) {
    auto created = createWeights(plan, path, step);
    if (created)
      writer = std::move(*created);
    else
      own = created.error();
  }
  std::vector<char> chunk(size_t(kChunk), char(0));
  for (const Whole &whole : sortedWholes(plan))
    for (const planpb::Parameter *parameter : whole.parts)
      ZC_RETURN_IF_ERROR(appendParameter(executor, communicator, *parameter, chunk, writer ? &*writer : nullptr, own));
  if (writer && own.ok())
    own = writer->commit();
  return Status::success();
}

/// A slice that a rank's own file holds.
namespace {
struct Own {
  std::string name;
  uint32_t slice = 0;
  TensorType type;
};
} // namespace

/// What all ranks have alike is rank 0's to write; buffers are every rank's, as their statistics may differ. Where the
/// update is delayed, the weights are newer than the parameters, which are state of their own.
static std::vector<Own> ownSlices(const planpb::Plan &plan, int rank) {
  std::vector<Own> own;
  for (int b = 0; b < plan.buckets_size(); ++b) {
    const planpb::Bucket &bucket = plan.buckets(b);
    for (int i = 0; i < bucket.residual_slices_size(); ++i) { // every rank lost something else
      DType type = dtypeOf(bucket.type());
      auto slice = uint32_t(bucket.residual_slices(i));
      int64_t elements = int64_t(plan.slices(int(slice)).bytes()) / sizeOf(type);
      own.push_back({"bucket-" + std::to_string(b) + ".residual" + std::to_string(i + 1), slice, {type, {elements}}});
    }
    if (plan.has_delay() && bucket.trainable() && (bucket.parameters_sharded() || rank == 0)) {
      int64_t elements = int64_t(bucket.padded()) / (bucket.parameters_sharded() ? plan.world_size() : 1);
      own.push_back({"bucket-" + std::to_string(b) + ".parameters",
                     uint32_t(bucket.parameter_slice()),
                     {dtypeOf(bucket.type()), {elements}}});
    }
    if (!bucket.optimizer_sharded() && rank != 0)
      continue;
    int64_t elements = int64_t(bucket.padded()) / (bucket.optimizer_sharded() ? plan.world_size() : 1);
    std::string name = "bucket-" + std::to_string(b) + ".moment";
    if (bucket.moment1_slice() >= 0)
      own.push_back({name + "1", uint32_t(bucket.moment1_slice()), {DType::f32, {elements}}});
    if (bucket.moment2_slice() >= 0)
      own.push_back({name + "2", uint32_t(bucket.moment2_slice()), {DType::f32, {elements}}});
  }
  for (int i = 0; i < plan.parameters_size(); ++i)
    if (plan.parameters(i).bucket() < 0)
      own.push_back(
          {"buffer-" + std::to_string(i), uint32_t(plan.parameters(i).slice()), typeOf(plan, plan.parameters(i))});
  return own;
}

static std::string rankFile(int rank) { return "rank-" + std::to_string(rank) + ".safetensors"; }

static Result<Manifest::File> saveOwn(RankExecutor &executor, const std::string &folder) {
  std::vector<Own> own = ownSlices(executor.plan(), executor.rank());
  std::vector<io::SafetensorsWriter::Tensor> tensors;
  for (const Own &each : own)
    tensors.push_back({each.name, each.type});
  std::string path = folder + "/" + rankFile(executor.rank());
  auto writer = io::SafetensorsWriter::create(path, std::move(tensors), {});
  if (!writer)
    return writer.error();
  std::vector<char> chunk(size_t(kChunk), char(0));
  for (const Own &each : own)
    for (int64_t done = 0; done < each.type.numBytes(); done += kChunk) {
      int64_t now = std::min(kChunk, each.type.numBytes() - done);
      ZC_RETURN_IF_ERROR(executor.readSlice(each.slice, uint64_t(done), chunk.data(), uint64_t(now)));
      ZC_RETURN_IF_ERROR(writer->append(chunk.data(), now));
    }
  ZC_RETURN_IF_ERROR(writer->commit());
  auto file = io::File::open(path);
  if (!file)
    return file.error();
  auto hash = io::hashOf(*file);
  if (!hash)
    return hash.error();
  return Manifest::File{uint64_t(file->size()), *hash};
}

/// The manifest goes first, so that a folder that is being removed can never be taken for a checkpoint.
static Status removeCheckpoint(const std::string &folder) {
  std::error_code failure;
  fs::remove(folder + "/manifest.json", failure);
  ZC_RETURN_IF_ERROR(passFault("ckpt.remove", folder));
  if (!failure)
    fs::remove_all(folder, failure);
  if (failure)
    return io::errnoError(Code::io, 913, "cannot remove", folder, failure.value());
  return Status::success();
}

/// `temporary`, whose files are on disk, becomes `folder`.
static Status putInPlace(const std::string &temporary, const std::string &folder, const Manifest &manifest) {
  ZC_RETURN_IF_ERROR(passFault("ckpt.manifest", temporary));
  ZC_RETURN_IF_ERROR(writeFileAtomically(temporary + "/manifest.json", toJson(manifest)));
  ZC_RETURN_IF_ERROR(passFault("ckpt.rename", temporary));
  std::error_code ignored;
  if (fs::exists(folder, ignored))
    ZC_RETURN_IF_ERROR(removeCheckpoint(folder));
  if (std::rename(temporary.c_str(), folder.c_str()) != 0)
    return io::errnoError(Code::io, 914, "cannot put in place", folder, errno);
  return io::syncFolder(io::folderOf(folder));
}

static Status prepareFolder(const std::string &temporary) {
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  return io::makeFolder(temporary);
}

/// Rank 0's last part: the files of all ranks become the checkpoint.
static Status commit(Manifest &manifest, const std::vector<Manifest::File> &files, const std::string &temporary,
                     const std::string &folder) {
  for (size_t rank = 0; rank < files.size(); ++rank)
    manifest.files[rankFile(int(rank))] = files[rank];
  auto weights = io::File::open(temporary + "/weights.safetensors");
  if (!weights)
    return weights.error();
  auto hash = io::hashOf(*weights);
  if (!hash)
    return hash.error();
  manifest.files["weights.safetensors"] = {uint64_t(weights->size()), *hash};
  return putInPlace(temporary, folder, manifest);
}

/// Are all ranks' parts good so far?
static Result<bool> agree(Communicator &communicator, const Status &own) {
  uint64_t mine = own.ok() ? 1 : 0;
  std::vector<uint64_t> all(size_t(communicator.worldSize()), 0);
  ZC_RETURN_IF_ERROR(communicator.allGather({&mine, all.data(), sizeof mine}));
  return std::count(all.begin(), all.end(), 1) == std::ptrdiff_t(all.size());
}

Result<SaveOutcome> saveCheckpoint(RankExecutor &executor, Communicator &communicator, Manifest manifest,
                                   const std::string &out, const std::string &name, int64_t keep) {
  std::string folder = out + "/" + name, temporary = folder + ".tmp";
  bool leads = communicator.rank() == 0;
  Status own = leads ? prepareFolder(temporary) : Status::success();
  ZC_RETURN_IF_ERROR(communicator.barrier());
  if (own.ok())
    own = passFault("ckpt.write", temporary);
  Manifest::File file;
  if (own.ok()) {
    auto saved = saveOwn(executor, temporary);
    if (saved)
      file = *saved;
    else
      own = saved.error();
  }
  ZC_RETURN_IF_ERROR(saveWeights(executor, communicator, temporary + "/weights.safetensors", manifest.step, own));
  std::vector<Manifest::File> files(size_t(communicator.worldSize()), Manifest::File());
  ZC_RETURN_IF_ERROR(communicator.allGather({&file, files.data(), sizeof file}));
  Result<bool> written = agree(communicator, own);
  if (written && *written && leads)
    own = commit(manifest, files, temporary, folder);
  Result<bool> saved = written && *written ? agree(communicator, own) : written;
  if (!saved)
    return saved.error();
  if (leads && !*saved) {
    std::error_code ignored; // what is left is taken away by the next save
    fs::remove_all(temporary, ignored);
  }
  std::vector<std::string> all = leads && *saved ? listCheckpoints(out) : std::vector<std::string>();
  for (size_t i = size_t(keep); own.ok() && keep > 0 && i < all.size(); ++i)
    own = removeCheckpoint(all[i]);
  return SaveOutcome{*saved, std::move(own)};
}

Status restoreCheckpoint(RankExecutor &executor, const Manifest &manifest) {
  const planpb::Plan &plan = executor.plan();
  auto values = InitialValues::fromSafetensors(plan, manifest.folder + "/weights.safetensors");
  if (!values)
    return values.error();
  ZC_RETURN_IF_ERROR(loadWeights(executor, *values));
  std::vector<char> chunk(size_t(kChunk), char(0));
  for (int rank : {0, executor.rank()}) {
    auto file = io::SafetensorsFile::open(manifest.folder + "/" + rankFile(rank));
    if (!file)
      return file.error();
    for (const Own &own : ownSlices(plan, rank)) {
      const io::SafetensorsEntry *entry = file->find(own.name);
      if (!entry || !(entry->type == own.type))
        return makeError(Code::corrupt, 915, "\"" + own.name + "\" is missing or of another shape",
                         file->file().path());
      for (int64_t done = 0; done < entry->bytes; done += kChunk) {
        int64_t now = std::min(kChunk, entry->bytes - done);
        ZC_RETURN_IF_ERROR(file->file().readAt(chunk.data(), now, entry->offset + done));
        ZC_RETURN_IF_ERROR(executor.writeSlice(own.slice, uint64_t(done), chunk.data(), uint64_t(now)));
      }
    }
  }
  return Status::success();
}

std::vector<std::string> listCheckpoints(const std::string &out) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code failure;
  fs::directory_iterator entries(out, failure), end;
  for (; !failure && entries != end; entries.increment(failure)) {
    std::string name = entries->path().filename().string(), digits = name.substr(std::min<size_t>(5, name.size()));
    if (name.compare(0, 5, "step-") == 0 && !digits.empty() && digits.size() < 18 &&
        digits.find_first_not_of("0123456789") == std::string::npos)
      found.emplace_back(std::stoll(digits), out + "/" + name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> folders;
  for (auto &[step, folder] : found)
    folders.push_back(std::move(folder));
  return folders;
}

} // namespace zc::train
