#include "runtime/io/Safetensors.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Convert.h"
#include "runtime/train/Weights.h"

#include <algorithm>

namespace zc::train {

/// Bytes that pass through memory at a time: a rank needs no more than this beside its arenas, whatever it loads.
static constexpr int64_t kChunk = 1 << 20;

static Error wrongTensor(const std::string &name, const std::string &path) {
  return makeError(Code::corrupt, 915, "\"" + name + "\" is missing or of another shape", path);
}

/// The elements of one kind of state that this rank holds, from the file that has them whole.
static Status restoreState(RankExecutor &executor, const Manifest &manifest, State state) {
  const planpb::Plan &plan = executor.plan();
  const Mesh mesh = meshOf(plan);
  auto file = io::SafetensorsFile::open(manifest.folder + "/" + fileOf(state));
  if (!file)
    return file.error();
  std::vector<char> from(static_cast<size_t>(kChunk)), to(static_cast<size_t>(kChunk));
  for (const planpb::Parameter &parameter : plan.parameters()) {
    auto store = storeOf(plan, parameter, state);
    if (!store)
      continue;
    const io::SafetensorsEntry *entry = file->find(wholeNameOf(parameter));
    if (!entry || entry->type.dims != wholeTypeOf(plan, parameter).dims || !convertible(entry->type.dtype, store->type))
      return wrongTensor(wholeNameOf(parameter), file->file().path());
    Piece piece = pieceOf(plan, mesh, parameter, *store, executor.rank());
    int64_t fileSize = sizeOf(entry->type.dtype), size = sizeOf(store->type), step = kChunk / std::max(fileSize, size);
    for (int64_t done = 0; done < piece.count; done += step) {
      int64_t now = std::min(step, piece.count - done), first = firstOf(parameter) + piece.first + done;
      ZC_RETURN_IF_ERROR(file->file().readAt(from.data(), now * fileSize, entry->offset + first * fileSize));
      convert(from.data(), entry->type.dtype, to.data(), store->type, now);
      ZC_RETURN_IF_ERROR(
          executor.writeSlice(store->slice, uint64_t((piece.at + done) * size), to.data(), uint64_t(now * size)));
    }
  }
  return Status::success();
}

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
  std::vector<char> chunk(static_cast<size_t>(kChunk));
  for (const OwnSlice &each : own) {
    if (each.ofThePlan && !samePlan)
      continue;
    const io::SafetensorsEntry *entry = file->find(each.name);
    if (!entry || !(entry->type == each.type))
      return wrongTensor(each.name, file->file().path());
    for (int64_t done = 0; done < entry->bytes; done += kChunk) {
      int64_t now = std::min(kChunk, entry->bytes - done);
      ZC_RETURN_IF_ERROR(file->file().readAt(chunk.data(), now, entry->offset + done));
      ZC_RETURN_IF_ERROR(executor.writeSlice(each.slice, uint64_t(done), chunk.data(), uint64_t(now)));
    }
  }
  return Status::success();
}

Status restoreCheckpoint(RankExecutor &executor, const Manifest &manifest, bool samePlan) {
  const planpb::Plan &plan = executor.plan();
  auto values = InitialValues::fromSafetensors(plan, manifest.folder + "/" + fileOf(State::weights));
  if (!values)
    return values.error();
  ZC_RETURN_IF_ERROR(loadWeights(executor, *values));
  for (State state : {State::moment1, State::moment2, State::published}) {
    bool needed = false;
    for (const planpb::Parameter &parameter : plan.parameters())
      needed |= storeOf(plan, parameter, state).has_value();
    // A plan that begins to delay publishes what the weights are.
    if (needed && (state != State::published || manifest.files.count(fileOf(state))))
      ZC_RETURN_IF_ERROR(restoreState(executor, manifest, state));
  }
  return restoreOwn(executor, manifest, samePlan);
}

} // namespace zc::train
