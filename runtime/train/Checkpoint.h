//===- Checkpoint.h - a run's state on disk -----------------------------------------------===//
//
// A checkpoint belongs to the model, not to the plan that wrote it. It is a folder:
//   weights.safetensors    every parameter whole: trainable ones in fp32 (the master copy), others in their own type
//   moment1.safetensors, moment2.safetensors    what the optimizer remembers of each trainable one, whole, by its name
//   published.safetensors  of a delayed update the parameters, which are older than the weights
//   rank-R.safetensors     what is rank R's alone and no part of the model: its buffers' statistics, and what its
//                          quantized gradients lost (which only the same plan can take up again)
//   manifest.json          see Manifest.h
//
// The shared files have their place for every element; each rank writes what it holds (Layout.h: writtenPieceOf), all
// at once, and nobody gathers anything. A rank hashes what it writes; of a tensor whose runs ranks of the model axis
// write in turns, all share the hashing of what then stands in the file. Loading is the same the other way round, by
// whatever plan: a rank reads the elements that it holds, and no others.
//
// It is written as NAME.tmp: files, fsync, hashes to rank 0, manifest, fsync; then it takes NAME's place in one step
// (CheckpointFolder.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/train/CheckpointFolder.h"
#include "runtime/train/Manifest.h"

#include <memory>
#include <new>
#include <string>
#include <vector>

namespace zc::train {

struct SaveOutcome {
  bool saved = false; ///< the checkpoint is there; the same on all ranks
  Status own;         ///< what went wrong on this rank: of a saved one, older ones could not be removed
};

/// How many files a process has open at most while it saves its `ranks`, rank 0 among them or not.
uint64_t openFilesOfSave(const planpb::Plan &plan, int ranks, bool leads);

/// Writes `folder`.name()/`name`; all ranks call it with the same arguments, between steps; `folder` is rank 0's. Keeps
/// the newest `keep` step-K folders (0: all). Where a rank cannot do its part, nothing is left and older checkpoints
/// are as they were. Errors: of the communicator.
Result<SaveOutcome> saveCheckpoint(RankExecutor &executor, Communicator &communicator, Manifest manifest,
                                   CheckpointFolder &folder, const std::string &name, int64_t keep);
/// Puts this rank's state in place, from a checkpoint of this or another plan for the same model whose heads have been
/// verified, and whose run was found to go on here (Resume.h). What a rank reads it compares with its hash; what none
/// needs the ranks share among them: when all have come back without an error, every byte of the checkpoint was right.
/// `samePlan`: it was this plan. Errors: corrupt (what is in place then is of no use), io.
Status restoreCheckpoint(RankExecutor &executor, const Manifest &manifest, bool samePlan);

/// What only one rank has: a slice that its own file holds.
struct OwnSlice {
  std::string name;
  uint32_t slice = 0;
  TensorType type;
  bool ofThePlan = false; ///< means something to the same plan alone
};
std::vector<OwnSlice> ownSlicesOf(const planpb::Plan &plan);

/// Bytes of a file that are moved at a time, and that have a hash of their own in checkpoints written since then.
constexpr int64_t kPieceBytes = 4 << 20;
/// Threads of a rank that move them: enough to keep a disk at work, few where many ranks share it.
int workersOf(const planpb::Plan &plan);

/// Memory for one piece, from the same place in a page as in its file, so that it need not be copied on its way.
class TransferBuffer {
public:
  char *at(int64_t position) { return begin() + position % int64_t(kPage); }
  /// Of the page.
  char *begin() {
    if (!memory)
      memory.reset(new (std::align_val_t(kPage)) char[kPieceBytes + 2 * kPage]);
    return memory.get();
  }

private:
  static constexpr size_t kPage = 4096;
  struct Free {
    void operator()(char *bytes) const { ::operator delete[](bytes, std::align_val_t(kPage)); }
  };
  std::unique_ptr<char[], Free> memory;
};

} // namespace zc::train
