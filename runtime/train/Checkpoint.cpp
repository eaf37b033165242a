#include "runtime/train/Checkpoint.h"

#include "base/Failpoint.h"
#include "base/Workers.h"
#include "runtime/io/Hash.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Safetensors.h"

#include <algorithm>
#include <cerrno>

namespace zc::train {

int workersOf(const planpb::Plan &plan) {
  const Mesh mesh = meshOf(plan);
  return std::clamp(8 / mesh.ranksPerNode(), 1, 4);
}

std::vector<OwnSlice> ownSlicesOf(const planpb::Plan &plan) {
  std::vector<OwnSlice> own;
  for (int b = 0; b < plan.buckets_size(); ++b)
    for (int i = 0; i < plan.buckets(b).residual_slices_size(); ++i) { // every rank lost something else
      DType type = dtypeOf(plan.buckets(b).type());
      auto slice = uint32_t(plan.buckets(b).residual_slices(i));
      int64_t elements = int64_t(plan.slices(int(slice)).bytes()) / sizeOf(type);
      own.push_back(
          {"residual" + std::to_string(i + 1) + ".bucket-" + std::to_string(b), slice, {type, {elements}}, true});
    }
  for (const planpb::Parameter &parameter : plan.parameters())
    if (parameter.bucket() < 0)
      own.push_back({"buffer." + parameter.name(), uint32_t(parameter.slice()), typeOf(plan, parameter), false});
  return own;
}

namespace {

/// One of the files that all ranks write: its tensors, in the order of their names, so that runs whose plans lay
/// parameters out differently write the same file.
struct SharedFile {
  State state;
  std::vector<Whole> wholes;
  std::vector<io::SafetensorsTable::Tensor> tensors;
  io::SafetensorsTable::Notes notes;
};

/// A piece of one tensor, of some rank's, which has a hash of its own.
struct Cut {
  size_t tensor = 0;
  int64_t first = 0, count = 0; ///< elements of the tensor
  Store store;
  int64_t at = 0;       ///< element of the store
  int64_t position = 0; ///< byte of the file
  int64_t bytes() const { return count * sizeOf(store.type); }
};

std::vector<SharedFile> sharedFilesOf(const planpb::Plan &plan, int64_t step) {
  std::vector<Whole> wholes = wholesOf(plan);
  std::sort(wholes.begin(), wholes.end(), [](const Whole &a, const Whole &b) { return a.name < b.name; });
  std::vector<SharedFile> files;
  for (State state : kStates) {
    SharedFile file{state, {}, {}, {{"format", "pt"}, {"step", std::to_string(step)}, {kStateNote, nameOf(state)}}};
    for (const Whole &whole : wholes) {
      auto store = storeOf(plan, *whole.parts.front(), state);
      if (!store)
        continue;
      file.wholes.push_back(whole);
      file.tensors.push_back({whole.name, {store->type, whole.type.dims}});
      for (const std::string &alias : whole.parts.front()->tied())
        file.notes["tied." + alias] = whole.name;
    }
    if (!file.wholes.empty() || state == State::weights)
      files.push_back(std::move(file));
  }
  return files;
}

/// `whole` in pieces that end where kPieceBytes of the file do, to an element.
void appendPieces(std::vector<Cut> &cuts, Cut whole) {
  int64_t size = sizeOf(whole.store.type);
  while (whole.count > 0) {
    Cut piece = whole;
    int64_t end = (whole.position / kPieceBytes + 1) * kPieceBytes;
    piece.count = std::min(whole.count, std::max<int64_t>((end - whole.position) / size, 1));
    cuts.push_back(piece);
    whole.first += piece.count;
    whole.at += piece.count;
    whole.position += piece.bytes();
    whole.count -= piece.count;
  }
}

bool isInterleaved(const Whole &whole) { return whole.parts.front()->has_cut(); }
bool anyInterleaved(const SharedFile &file) {
  return std::any_of(file.wholes.begin(), file.wholes.end(), isInterleaved);
}

/// What `rank` writes of a file's tensors whose elements it has one after another, in the order of the file's bytes.
std::vector<Cut> cutsOf(const planpb::Plan &plan, const SharedFile &file, const io::SafetensorsTable &table, int rank) {
  const Mesh mesh = meshOf(plan);
  std::vector<Cut> cuts;
  for (size_t i = 0; i < file.wholes.size(); ++i)
    for (const planpb::Parameter *part : file.wholes[i].parts) {
      if (isInterleaved(file.wholes[i]))
        continue;
      Store store = *storeOf(plan, *part, file.state);
      Piece piece = writtenPieceOf(plan, mesh, *part, store, rank);
      int64_t first = firstOf(*part) + piece.first;
      appendPieces(cuts, {i, first, piece.count, store, piece.at, table.positionOf(i) + first * sizeOf(store.type)});
    }
  return cuts;
}

/// The others of a file, whole: ranks of the model axes write short runs in turns, so a piece is of several ranks.
std::vector<Cut> interleavedOf(const planpb::Plan &plan, const SharedFile &file, const io::SafetensorsTable &table) {
  std::vector<Cut> cuts;
  for (size_t i = 0; i < file.wholes.size(); ++i)
    if (const Whole &whole = file.wholes[i]; isInterleaved(whole))
      appendPieces(cuts, {i, 0, whole.type.numElements(), *storeOf(plan, *whole.parts.front(), file.state), 0,
                          table.positionOf(i)});
  return cuts;
}

/// Where each transfer's cuts end: those that follow one another in the file, up to kPieceBytes.
std::vector<size_t> transfersOf(const std::vector<Cut> &cuts) {
  std::vector<size_t> ends;
  int64_t begin = 0;
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (i == 0 || cuts[i - 1].position + cuts[i - 1].bytes() != cuts[i].position ||
        cuts[i].position + cuts[i].bytes() - begin > kPieceBytes) {
      begin = cuts[i].position;
      ends.push_back(i);
    }
    ends.back() = i + 1;
  }
  return ends;
}

/// One rank's part of a save.
class Save {
public:
  Save(RankExecutor &executor, Communicator &communicator, const Manifest &manifest, std::string temporary)
      : executor(executor), communicator(communicator), plan(executor.plan()), temporary(std::move(temporary)),
        files(sharedFilesOf(plan, manifest.step)), buffers(size_t(workersOf(plan))) {}

  /// Rank 0, before the others begin: the shared files with their heads.
  Status createFiles();
  /// This rank's elements, and what is its alone; all on disk when it returns.
  Status write();
  /// When all have written: this rank's share of the hashes of what several ranks wrote in turns, as the files have it.
  Status hashInterleaved();
  /// All ranks: rank 0 has everybody's hashes afterwards. Errors: of the communicator.
  Status collect();
  bool hasInterleaved() const { return std::any_of(files.begin(), files.end(), anyInterleaved); }
  /// Rank 0: what the checkpoint is made of.
  Status describe(Manifest &manifest) const;

private:
  /// What a rank tells of its part.
  struct Told {
    uint64_t pieces = 0, ownBytes = 0, ownHash = 0;
  };
  std::string path(const SharedFile &file) const { return temporary + "/" + fileOf(file.state); }
  Status writeShared(const SharedFile &file, io::SafetensorsTable &table);
  Status transfer(int worker, const Cut *cuts, size_t count, io::SafetensorsTable &table, uint64_t *hashes);
  Status writeInterleaved(const SharedFile &file, io::SafetensorsTable &table);
  Status writeInterleaved(size_t tensor, const planpb::Parameter &parameter, const Store &store,
                          io::SafetensorsTable &table);
  Status writeOwn();

  RankExecutor &executor;
  Communicator &communicator;
  const planpb::Plan &plan;
  const std::string temporary;
  const std::vector<SharedFile> files;
  std::vector<io::SafetensorsTable> tables; ///< of rank 0
  std::vector<TransferBuffer> buffers;      ///< by worker
  std::vector<uint64_t> hashes;             ///< of this rank's pieces, file by file
  Told told;
  std::vector<Told> all;           ///< by rank
  std::vector<uint64_t> allHashes; ///< a row per rank, of the longest one's length
};

Status Save::createFiles() {
  for (const SharedFile &file : files) {
    auto table = io::SafetensorsTable::createInPlace(path(file), file.tensors, file.notes);
    if (!table)
      return table.error();
    tables.push_back(std::move(*table));
  }
  return Status::success();
}

Status Save::writeShared(const SharedFile &file, io::SafetensorsTable &table) {
  std::vector<Cut> cuts = cutsOf(plan, file, table, communicator.rank());
  std::vector<size_t> ends = transfersOf(cuts);
  size_t before = hashes.size();
  hashes.resize(before + cuts.size());
  ZC_RETURN_IF_ERROR(forEachOf(ends.size(), int(buffers.size()), [&](int worker, size_t i) {
    size_t first = i > 0 ? ends[i - 1] : 0;
    return transfer(worker, &cuts[first], ends[i] - first, table, &hashes[before + first]);
  }));
  ZC_RETURN_IF_ERROR(writeInterleaved(file, table));
  return table.flush();
}

Status Save::writeInterleaved(const SharedFile &file, io::SafetensorsTable &table) {
  for (size_t i = 0; i < file.wholes.size(); ++i)
    if (isInterleaved(file.wholes[i]))
      for (const planpb::Parameter *part : file.wholes[i].parts)
        ZC_RETURN_IF_ERROR(writeInterleaved(i, *part, *storeOf(plan, *part, file.state), table));
  return Status::success();
}

/// Slices are read in long pieces, each of which is many runs of the file.
Status Save::writeInterleaved(size_t tensor, const planpb::Parameter &parameter, const Store &store,
                              io::SafetensorsTable &table) {
  const Mesh mesh = meshOf(plan);
  const Piece all = writtenPieceOf(plan, mesh, parameter, store, communicator.rank());
  const int64_t size = sizeOf(store.type), most = kPieceBytes / size;
  return forEachOf(size_t((all.count + most - 1) / most), int(buffers.size()), [&](int worker, size_t n) -> Status {
    int64_t done = int64_t(n) * most;
    Piece piece{all.first + done, std::min(most, all.count - done), all.at + done};
    char *from = buffers[size_t(worker)].begin();
    ZC_RETURN_IF_ERROR(executor.readSlice(store.slice, uint64_t(piece.at * size), from, uint64_t(piece.count * size)));
    for (const Piece &run : inWhole(plan, mesh, parameter, piece, communicator.rank()))
      ZC_RETURN_IF_ERROR(table.place(tensor, run.first * size, from + (run.at - piece.at) * size, run.count * size));
    return Status::success();
  });
}

Status Save::hashInterleaved() {
  size_t number = 0, ranks = size_t(communicator.worldSize());
  for (const SharedFile &file : files) {
    if (!anyInterleaved(file))
      continue;
    auto table = io::SafetensorsTable::join(path(file), file.tensors, file.notes);
    auto written = io::File::open(path(file));
    if (!table || !written)
      return table ? written.status() : table.status();
    for (const Cut &cut : interleavedOf(plan, file, *table)) {
      if (number++ % ranks != size_t(communicator.rank()))
        continue;
      auto hash = io::hashOf(*written, cut.position, cut.bytes());
      if (!hash)
        return hash.error();
      hashes.push_back(*hash);
    }
  }
  return Status::success();
}

/// Bytes of the file that follow one another, from slices, each piece with its hash.
Status Save::transfer(int worker, const Cut *cuts, size_t count, io::SafetensorsTable &table, uint64_t *hashes) {
  char *to = buffers[size_t(worker)].at(cuts[0].position), *end = to;
  for (size_t i = 0; i < count; ++i) {
    const Cut &cut = cuts[i];
    ZC_RETURN_IF_ERROR(
        executor.readSlice(cut.store.slice, uint64_t(cut.at * sizeOf(cut.store.type)), end, uint64_t(cut.bytes())));
    hashes[i] = io::hashOf({end, size_t(cut.bytes())});
    end += cut.bytes();
  }
  return table.place(cuts[0].tensor, cuts[0].position - table.positionOf(cuts[0].tensor), to, end - to);
}

Status Save::writeOwn() {
  std::vector<OwnSlice> own = ownSlicesOf(plan);
  if (own.empty())
    return Status::success();
  std::vector<io::SafetensorsTable::Tensor> tensors;
  for (const OwnSlice &each : own)
    tensors.push_back({each.name, each.type});
  auto table = io::SafetensorsTable::createInPlace(temporary + "/" + ownFileOf(communicator.rank()), tensors, {});
  if (!table)
    return table.error();
  io::Hasher hash;
  hash.add(table->head().data(), int64_t(table->head().size()));
  for (size_t i = 0; i < own.size(); ++i)
    for (int64_t done = 0; done < own[i].type.numBytes(); done += kPieceBytes) {
      int64_t now = std::min(kPieceBytes, own[i].type.numBytes() - done);
      char *chunk = buffers[0].at(table->positionOf(i) + done);
      ZC_RETURN_IF_ERROR(executor.readSlice(own[i].slice, uint64_t(done), chunk, uint64_t(now)));
      hash.add(chunk, now);
      ZC_RETURN_IF_ERROR(table->place(i, done, chunk, now));
    }
  told.ownBytes = uint64_t(table->positionOf(own.size()));
  told.ownHash = hash.value();
  return table->flush();
}

Status Save::write() {
  if (auto fault = failpoint("ckpt.write"); fault && fault->kind == FaultAction::Kind::error)
    return io::errnoError(Code::io, 916, "cannot save into", temporary, fault->errnum);
  for (size_t i = 0; i < files.size(); ++i) {
    if (communicator.rank() == 0) {
      ZC_RETURN_IF_ERROR(writeShared(files[i], tables[i]));
      continue;
    }
    auto joined = io::SafetensorsTable::join(path(files[i]), files[i].tensors, files[i].notes);
    if (!joined)
      return joined.error();
    ZC_RETURN_IF_ERROR(writeShared(files[i], *joined));
  }
  return writeOwn();
}

Status Save::collect() {
  auto ranks = size_t(communicator.worldSize());
  told.pieces = hashes.size();
  all.resize(ranks);
  ZC_RETURN_IF_ERROR(communicator.allGather({&told, all.data(), sizeof told}));
  size_t most = 1;
  for (const Told &each : all)
    most = std::max(most, size_t(each.pieces));
  hashes.resize(most);
  allHashes.resize(most * ranks);
  return communicator.allGather({hashes.data(), allHashes.data(), most * sizeof(uint64_t)});
}

Status Save::describe(Manifest &manifest) const {
  std::vector<size_t> next(all.size(), 0); // of each rank's hashes
  const size_t firstTensor = manifest.tensors.size();
  size_t ofFile = firstTensor; // where the tensors of a file begin
  auto add = [&](const Cut &cut, size_t rank) {
    manifest.tensors[ofFile + cut.tensor].pieces.push_back(
        {uint64_t(cut.first), uint64_t(cut.count), uint64_t(cut.position),
         allHashes[rank * (allHashes.size() / all.size()) + next[rank]++]});
  };
  for (size_t f = 0; f < files.size(); ++f) {
    ofFile = manifest.tensors.size();
    for (const auto &tensor : files[f].tensors)
      manifest.tensors.push_back({tensor.name, fileOf(files[f].state), tensor.type, {}});
    for (size_t rank = 0; rank < all.size(); ++rank)
      for (const Cut &cut : cutsOf(plan, files[f], tables[f], int(rank)))
        add(cut, rank);
  }
  ofFile = firstTensor;
  size_t number = 0;
  for (size_t f = 0; f < files.size(); ofFile += files[f++].tensors.size())
    for (const Cut &cut : interleavedOf(plan, files[f], tables[f]))
      add(cut, number++ % all.size());
  for (size_t i = firstTensor; i < manifest.tensors.size(); ++i)
    std::sort(manifest.tensors[i].pieces.begin(), manifest.tensors[i].pieces.end(),
              [](const Manifest::Piece &a, const Manifest::Piece &b) { return a.first < b.first; });
  for (size_t f = 0; f < files.size(); ++f) {
    const SharedFile &file = files[f];
    const std::string &head = tables[f].head();
    manifest.files[fileOf(file.state)] = {uint64_t(tables[f].positionOf(file.tensors.size())), head.size(),
                                          io::hashOf(head)};
  }
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].ownBytes > 0)
      manifest.files[ownFileOf(int64_t(rank))] = {all[rank].ownBytes, all[rank].ownBytes, all[rank].ownHash};
  return Status::success();
}

/// Are all ranks' parts good so far?
Result<bool> agree(Communicator &communicator, const Status &own) {
  uint64_t mine = own.ok() ? 1 : 0;
  std::vector<uint64_t> all(size_t(communicator.worldSize()), 0);
  ZC_RETURN_IF_ERROR(communicator.allGather({&mine, all.data(), sizeof mine}));
  return std::count(all.begin(), all.end(), 1) == std::ptrdiff_t(all.size());
}

/// Rank 0's last part: the files of all ranks become the checkpoint.
Status commit(const Save &save, Manifest &manifest, CheckpointFolder &folder, const std::string &name) {
  std::string temporary = folder.name() + "/" + name + ".tmp";
  Status described = save.describe(manifest);
  if (auto fault = failpoint("ckpt.manifest"); fault && fault->kind == FaultAction::Kind::error)
    described = io::errnoError(Code::io, 916, "cannot save into", temporary, fault->errnum);
  auto out = described.ok() ? io::OutputFile::create(temporary + "/" + io::kManifestFile) : described;
  Status written = out.status();
  std::string text = toJson(manifest);
  if (written.ok())
    written = out->write(text.data(), int64_t(text.size()));
  if (written.ok())
    written = out->commit();
  if (!written.ok()) {
    folder.discard(name);
    return written;
  }
  return folder.putInPlace(name);
}

} // namespace

uint64_t openFilesOfSave(const planpb::Plan &plan, int ranks, bool leads) {
  constexpr uint64_t perFile = 2; // also past the page cache
  constexpr uint64_t beside = 2;  // the folder, and a file for a moment
  return perFile * (uint64_t(ranks) + (leads ? sharedFilesOf(plan, 0).size() : 0)) + beside;
}

Result<SaveOutcome> saveCheckpoint(RankExecutor &executor, Communicator &communicator, Manifest manifest,
                                   CheckpointFolder &folder, const std::string &name, int64_t keep) {
  bool leads = communicator.rank() == 0;
  Save save(executor, communicator, manifest, folder.name() + "/" + name + ".tmp");
  Status own = leads ? folder.begin(name) : Status::success();
  if (leads && own.ok())
    own = save.createFiles();
  Result<bool> begun = agree(communicator, own);
  if (begun && *begun)
    own = save.write();
  Result<bool> written = begun && *begun ? agree(communicator, own) : begun;
  if (written && *written && save.hasInterleaved()) {
    own = save.hashInterleaved();
    written = agree(communicator, own);
  }
  if (written && *written)
    ZC_RETURN_IF_ERROR(save.collect());
  if (leads && written && !*written)
    folder.discard(name);
  if (leads && written && *written)
    own = commit(save, manifest, folder, name);
  Result<bool> saved = written && *written ? agree(communicator, own) : written;
  if (!saved)
    return saved.error();
  if (leads && *saved) {
    folder.trust(folder.name() + "/" + name);
    own = keep > 0 ? folder.prune(keep, name) : Status::success();
  }
  return SaveOutcome{*saved, std::move(own)};
}

} // namespace zc::train
