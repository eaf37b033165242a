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
// at once, and nobody gathers anything. Loading is the same the other way round, by whatever plan: a rank reads the
// elements that it holds, and no others.
//
// It is written as NAME.tmp: files, fsync, hashes to rank 0, manifest, fsync; then it takes NAME's place in one step
// (CheckpointFolder.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/train/CheckpointFolder.h"
#include "runtime/train/Manifest.h"

#include <string>
#include <vector>

namespace zc::train {

/// Every file listed is there, beneath the folder, with its size, each of its bytes under a hash that it has. Errors:
/// corrupt (naming the file, and the tensor where there is one), io.
Status verifyFiles(const Manifest &manifest);

struct SaveOutcome {
  bool saved = false; ///< the checkpoint is there; the same on all ranks
  Status own;         ///< what went wrong on this rank: of a saved one, older ones could not be removed
};

/// Writes `folder`.name()/`name`; all ranks call it with the same arguments, between steps; `folder` is rank 0's. Keeps
/// the newest `keep` step-K folders (0: all). Where a rank cannot do its part, nothing is left and older checkpoints
/// are as they were. Errors: of the communicator.
Result<SaveOutcome> saveCheckpoint(RankExecutor &executor, Communicator &communicator, Manifest manifest,
                                   CheckpointFolder &folder, const std::string &name, int64_t keep);
/// Puts this rank's state in place, from a checkpoint of this or another plan for the same model. The manifest must
/// have been verified, and its run been found to go on here (Resume.h). `samePlan`: it was this plan. Errors: corrupt,
/// mismatch, io.
Status restoreCheckpoint(RankExecutor &executor, const Manifest &manifest, bool samePlan);

/// What only one rank has: a slice that its own file holds.
struct OwnSlice {
  std::string name;
  uint32_t slice = 0;
  TensorType type;
  bool ofThePlan = false; ///< means something to the same plan alone
};
std::vector<OwnSlice> ownSlicesOf(const planpb::Plan &plan);
std::string ownFileOf(int64_t rank);
std::string fileOf(State state);

} // namespace zc::train
