#include "base/Workers.h"
#include "runtime/io/Hash.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Convert.h"
#include "runtime/train/Filled.h"
#include "runtime/train/VerifyCheckpoint.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace zc::train {

namespace {

/// Elements [first, first + count) of a tensor, which a slice holds from its element `at`.
struct SlicePart {
  int64_t first = 0, count = 0, at = 0;
  uint32_t slice = 0;
  DType type = DType::f32;
};

/// Where a tensor of the checkpoint goes on this rank; of one that no rank needs there is none of these.
struct Destination {
  TensorType type;
  std::vector<SlicePart> targets; ///< in order of their first elements
  bool isWhole = false;           ///< on every rank, in one place at least
};
using Key = std::pair<std::string, std::string>; // file, tensor

Error wrongTensor(const std::string &name, const std::string &path) {
  return makeError(Code::corrupt, 915, "\"" + name + "\" is missing or of another shape", path);
}

bool needs(const planpb::Plan &plan, State state) {
  for (const planpb::Parameter &parameter : plan.parameters())
    if (storeOf(plan, parameter, state))
      return true;
  return false;
}

/// One rank's part of a load, of what belongs to the model.
class Restore {
public:
  Restore(RankExecutor &executor, const Manifest &manifest)
      : executor(executor), plan(executor.plan()), manifest(manifest), buffers(size_t(workersOf(plan))),
        converted(buffers.size()) {}

  Status run();

private:
  /// A tensor's elements under one hash; `destination` is null where they are only to be compared.
  struct Task {
    const Manifest::Tensor *tensor;
    const Manifest::Piece *piece;
    const Destination *destination;
    bool isShared; ///< other ranks here need it as well: the page cache has it for them
  };
  static int64_t bytesOf(const Task &task) { return int64_t(task.piece->count) * sizeOf(task.tensor->type.dtype); }
  void findTargets();
  void addTarget(State state, const planpb::Parameter &parameter, const Store &store);
  Status findTasks();
  Status openFiles();
  Error missing(const Key &key) const;
  void findTransfers();
  Status clearRest();
  Status load(int worker, size_t first, size_t end);
  Status loadLong(int worker, const Task &task);
  Status read(int worker, const Task &task, int64_t position, int64_t bytes);
  Status check(const Task &task, uint64_t hash) const;
  Status scatter(int worker, const Task &task, int64_t first, int64_t count, const char *from);

  RankExecutor &executor;
  const planpb::Plan &plan;
  const Manifest &manifest;
  std::map<std::string, io::File> files; ///< of the tasks
  std::map<Key, Destination> destinations;
  std::vector<Task> tasks;                        ///< in the order of files and of their bytes
  std::vector<size_t> ends;                       ///< of the tasks that are read at once
  std::vector<TransferBuffer> buffers, converted; ///< by worker
};

/// What every rank of the plan needs has its entry, whatever this one holds of it.
void Restore::addTarget(State state, const planpb::Parameter &parameter, const Store &store) {
  Destination &destination = destinations[{fileOf(state), wholeNameOf(parameter)}];
  destination.type = {store.type, wholeTypeOf(plan, parameter).dims};
  destination.isWhole |= store.cut.empty() && !parameter.has_cut();
  Piece piece = pieceOf(plan, meshOf(plan), parameter, store, executor.rank());
  for (const Piece &run : inWhole(plan, meshOf(plan), parameter, piece, executor.rank()))
    if (run.count > 0)
      destination.targets.push_back({run.first, run.count, run.at, store.slice, store.type});
}

void Restore::findTargets() {
  // A plan that begins to delay publishes what the weights are; what is not trained is that anyway, and in files from
  // before only there.
  bool isPublished = needs(plan, State::published) && manifest.files.count(fileOf(State::published)) > 0;
  for (const planpb::Parameter &parameter : plan.parameters()) {
    auto published = isPublished && parameter.role() == planpb::TRAINABLE ? storeOf(plan, parameter, State::published)
                                                                          : std::nullopt;
    for (const Store &store : storesOf(plan, parameter))
      if (!published || published->slice != store.slice)
        addTarget(State::weights, parameter, store);
    if (published)
      addTarget(State::published, parameter, *published);
    for (State state : {State::moment1, State::moment2})
      if (auto store = storeOf(plan, parameter, state))
        addTarget(state, parameter, *store);
  }
  for (auto &[key, destination] : destinations)
    std::sort(destination.targets.begin(), destination.targets.end(),
              [](const SlicePart &a, const SlicePart &b) { return a.first < b.first; });
}

/// The pieces of which this rank needs an element; of those that nobody needs, its share.
Status Restore::findTasks() {
  std::map<Key, bool> found;
  size_t unused = 0, ranks = size_t(meshOf(plan).worldSize());
  for (const Manifest::Tensor &tensor : manifest.tensors) {
    auto known = destinations.find({tensor.file, tensor.name});
    if (known == destinations.end()) {
      for (const Manifest::Piece &piece : tensor.pieces)
        if (unused++ % ranks == size_t(executor.rank()))
          tasks.push_back({&tensor, &piece, nullptr, false});
      continue;
    }
    const Destination &destination = known->second;
    if (tensor.type.dims != destination.type.dims || !convertible(tensor.type.dtype, destination.type.dtype))
      return wrongTensor(tensor.name, manifest.folder + "/" + tensor.file);
    found[known->first] = true;
    for (const Manifest::Piece &piece : tensor.pieces)
      for (const SlicePart &target : destination.targets)
        if (target.first < int64_t(piece.first + piece.count) && int64_t(piece.first) < target.first + target.count) {
          tasks.push_back({&tensor, &piece, &destination, destination.isWhole && ranks > 1});
          break;
        }
  }
  for (const auto &[key, destination] : destinations)
    if (!found.count(key))
      return missing(key);
  return Status::success();
}

Status Restore::openFiles() {
  for (const Task &task : tasks) {
    if (files.count(task.tensor->file))
      continue;
    auto opened = openCheckpointFile(manifest, task.tensor->file);
    if (!opened)
      return opened.error();
    opened->openDirect();
    files.emplace(task.tensor->file, std::move(*opened));
  }
  return Status::success();
}

/// What a parameter has that learns is not there where it did not learn in the run that saved it.
Error Restore::missing(const Key &key) const {
  const auto &[file, tensor] = key;
  auto isWeight = [&, &name = tensor](const Manifest::Tensor &there) {
    return there.file == fileOf(State::weights) && there.name == name;
  };
  if (file == fileOf(State::weights) || std::none_of(manifest.tensors.begin(), manifest.tensors.end(), isWeight))
    return wrongTensor(tensor, manifest.folder + "/" + file);
  return makeError(Code::mismatch, 908, "\"" + tensor + "\" was frozen in the run that saved this: it has no moments",
                   manifest.folder, "--weights begins with its weights, and with moments of 0");
}

/// Elements `from` of the task's tensor, beginning with `first`, to wherever they belong.
Status Restore::scatter(int worker, const Task &task, int64_t first, int64_t count, const char *from) {
  DType type = task.tensor->type.dtype;
  for (const SlicePart &target : task.destination->targets) {
    int64_t begin = std::max(first, target.first), end = std::min(first + count, target.first + target.count);
    int64_t size = sizeOf(target.type), step = kPieceBytes / size;
    for (int64_t at = begin; at < end; at += step) {
      int64_t now = std::min(step, end - at);
      const char *source = from + (at - first) * sizeOf(type);
      if (type != target.type) {
        char *to = converted[size_t(worker)].at(0);
        convert(source, type, to, target.type, now);
        source = to;
      }
      ZC_RETURN_IF_ERROR(executor.writeSlice(target.slice, uint64_t((target.at + at - target.first) * size), source,
                                             uint64_t(now * size)));
    }
  }
  return Status::success();
}

/// Pieces that follow one another in a file are read at once, whatever tensors they are of: those of small tensors are
/// too short to be worth a call of the system each.
void Restore::findTransfers() {
  std::sort(tasks.begin(), tasks.end(), [](const Task &a, const Task &b) {
    return std::tie(a.tensor->file, a.piece->offset) < std::tie(b.tensor->file, b.piece->offset);
  });
  uint64_t begin = 0, next = 0; // bytes of the transfer so far
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task &task = tasks[i];
    bool follows = i > 0 && tasks[i - 1].tensor->file == task.tensor->file && task.piece->offset == next &&
                   tasks[i - 1].isShared == task.isShared;
    next = task.piece->offset + uint64_t(bytesOf(task));
    if (!follows || next - begin > uint64_t(kPieceBytes)) {
      begin = task.piece->offset;
      ends.push_back(i);
    }
    ends.back() = i + 1;
  }
}

Status Restore::read(int worker, const Task &task, int64_t position, int64_t bytes) {
  const io::File &file = files.at(task.tensor->file);
  TransferBuffer &buffer = buffers[size_t(worker)];
  return task.isShared ? file.readAt(buffer.at(position), bytes, position)
                       : file.readInto(buffer.begin(), bytes, position);
}

Status Restore::check(const Task &task, uint64_t hash) const {
  if (hash == task.piece->hash)
    return Status::success();
  return wrongHash(files.at(task.tensor->file).path(), task.tensor->name, task.piece->offset, uint64_t(bytesOf(task)),
                   hash, task.piece->hash);
}

Status Restore::load(int worker, size_t first, size_t end) {
  auto position = int64_t(tasks[first].piece->offset);
  int64_t bytes = int64_t(tasks[end - 1].piece->offset) + bytesOf(tasks[end - 1]) - position;
  if (bytes > kPieceBytes) // another's pieces may be longer
    return loadLong(worker, tasks[first]);
  ZC_RETURN_IF_ERROR(read(worker, tasks[first], position, bytes));
  const char *at = buffers[size_t(worker)].at(position);
  for (size_t i = first; i < end; ++i) {
    const Task &task = tasks[i];
    ZC_RETURN_IF_ERROR(check(task, io::hashOf({at, size_t(bytesOf(task))})));
    if (task.destination)
      ZC_RETURN_IF_ERROR(scatter(worker, task, int64_t(task.piece->first), int64_t(task.piece->count), at));
    at += bytesOf(task);
  }
  return Status::success();
}

/// A piece of more bytes than are moved at a time.
Status Restore::loadLong(int worker, const Task &task) {
  int64_t size = sizeOf(task.tensor->type.dtype), most = kPieceBytes / size;
  io::Hasher hash;
  for (int64_t done = 0; done < int64_t(task.piece->count); done += most) {
    int64_t now = std::min(most, int64_t(task.piece->count) - done);
    int64_t position = int64_t(task.piece->offset) + done * size;
    ZC_RETURN_IF_ERROR(read(worker, task, position, now * size));
    const char *at = buffers[size_t(worker)].at(position);
    hash.add(at, now * size);
    if (task.destination)
      ZC_RETURN_IF_ERROR(scatter(worker, task, int64_t(task.piece->first) + done, now, at));
  }
  return check(task, hash.value());
}

/// What no element of the checkpoint comes to: padding, and what gradients lost.
Status Restore::clearRest() {
  Filled filled;
  for (const auto &[key, destination] : destinations)
    for (const SlicePart &target : destination.targets)
      filled.add(target.slice, target.at * sizeOf(target.type), (target.at + target.count) * sizeOf(target.type));
  return filled.clearRest(executor);
}

Status Restore::run() {
  findTargets();
  ZC_RETURN_IF_ERROR(findTasks());
  ZC_RETURN_IF_ERROR(openFiles());
  findTransfers();
  ZC_RETURN_IF_ERROR(clearRest());
  return forEachOf(ends.size(), int(buffers.size()),
                   [this](int worker, size_t i) { return load(worker, i > 0 ? ends[i - 1] : 0, ends[i]); });
}

} // namespace

/// The rank whose own file is for `rank`: of another mesh it is one that had the samples, counted round.
static int rankBefore(const Mesh &before, const Mesh &mesh, int rank) {
  if (before == mesh)
    return rank;
  int dataRank = mesh.indexOf(mesh.dataAxes(), rank) % before.dataDegree();
  return before.rankOf(before.dataAxes(), 0, dataRank);
}

/// What is no part of the model: buffers as that rank had them; of the same plan all else.
static Status restoreOwn(RankExecutor &executor, const Manifest &manifest, bool samePlan) {
  std::string name = ownFileOf(rankBefore(manifest.plan.mesh, meshOf(executor.plan()), executor.rank()));
  std::vector<OwnSlice> own = ownSlicesOf(executor.plan());
  if (own.empty() || !manifest.files.count(name))
    return Status::success();
  auto file = io::SafetensorsFile::open(manifest.folder + "/" + name);
  if (!file)
    return file.error();
  TransferBuffer buffer;
  for (const OwnSlice &each : own) {
    if (each.ofThePlan && !samePlan)
      continue;
    const io::SafetensorsEntry *entry = file->find(each.name);
    if (!entry || !(entry->type == each.type))
      return wrongTensor(each.name, file->file().path());
    for (int64_t done = 0; done < entry->bytes; done += kPieceBytes) {
      int64_t now = std::min(kPieceBytes, entry->bytes - done);
      char *chunk = buffer.at(0);
      ZC_RETURN_IF_ERROR(file->file().readAt(chunk, now, entry->offset + done));
      ZC_RETURN_IF_ERROR(executor.writeSlice(each.slice, uint64_t(done), chunk, uint64_t(now)));
    }
  }
  return Status::success();
}

Status restoreCheckpoint(RankExecutor &executor, const Manifest &manifest, bool samePlan) {
  ZC_RETURN_IF_ERROR(Restore(executor, manifest).run());
  return restoreOwn(executor, manifest, samePlan);
}

} // namespace zc::train
