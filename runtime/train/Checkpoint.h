//===- Checkpoint.h - a run's state on disk -----------------------------------------------===//
//
// A checkpoint is a folder:
//   weights.safetensors   every parameter whole: trainable ones in fp32 (the master copy), others in their own type
//   rank-R.safetensors    what only rank R has: its part of the optimizer moments, its buffers, what its gradients
//                         lost; of a delayed update also the parameters, which are older than the weights
//   manifest.json         which plan and step, where each parameter came from, size and XXH3-64 of the files above
//
// It is written as NAME.tmp: files, fsync, hashes to rank 0, manifest, fsync, rename, fsync of the parent. Whatever is
// killed when, a folder without ".tmp" whose manifest verifies is whole. Older ones lose their manifest first when they
// are removed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/train/LossScale.h"

#include <map>
#include <string>
#include <vector>

namespace zc::train {

/// manifest.json
struct Manifest {
  struct File {
    uint64_t bytes = 0;
    uint64_t hash = 0; ///< XXH3-64
  };
  struct Parameter {
    std::string name;
    bool trainable = false;
    std::string file; ///< of its initial bytes, relative to the model's folder; empty: not in a file
    uint64_t offset = 0, bytes = 0;
    DType type = DType::f32; ///< of those bytes
    std::vector<std::string> tied;
  };
  std::string folder; ///< where it was read
  int64_t step = 0;
  int64_t worldSize = 1;
  uint64_t planHash = 0;
  uint64_t seed = 0;
  int64_t samples = 0; ///< of an epoch
  bool shuffle = false;
  std::optional<LossScaleState> lossScale; ///< of a plan that has one
  std::string modelPath;
  uint64_t modelBytes = 0, modelHash = 0;
  std::map<std::string, File> files;
  std::vector<Parameter> parameters;
};

std::string toJson(const Manifest &manifest);
/// Reads `folder`/manifest.json. Errors: badInput (none there), mismatch (another format), corrupt.
Result<Manifest> readManifest(const std::string &folder);
/// Every file listed is there, beneath the folder, with its size and hash. Errors: corrupt, naming the file.
Status verifyFiles(const Manifest &manifest);

/// What a checkpoint of this run says, besides the step and the files.
Manifest describeRun(const planpb::Plan &plan, uint64_t seed, int64_t samples, bool shuffle);

struct SaveOutcome {
  bool saved = false; ///< the checkpoint is there; the same on all ranks
  Status own;         ///< what went wrong on this rank: of a saved one, older ones could not be removed
};

/// Writes `out`/`name`; all ranks call it with the same arguments, between steps. Keeps the newest `keep` step-K
/// folders (0: all). Where a rank cannot do its part, nothing is left and older checkpoints are as they were. Errors:
/// of the communicator.
Result<SaveOutcome> saveCheckpoint(RankExecutor &executor, Communicator &communicator, Manifest manifest,
                                   const std::string &out, const std::string &name, int64_t keep);
/// Puts this rank's state back. The manifest must have been verified. Errors: corrupt, mismatch.
Status restoreCheckpoint(RankExecutor &executor, const Manifest &manifest);

/// The checkpoints step-K of a run's folder, newest first.
std::vector<std::string> listCheckpoints(const std::string &out);

} // namespace zc::train
