//===- Manifest.h - what a checkpoint says of itself -------------------------------------------===//
//
// manifest.json: which step of which run, where the data stood, where each tensor's elements lie, and the XXH3-64 of
// every byte of the checkpoint's files: of their heads here, of the rest piece by piece with the tensors. Its own last
// member is the XXH3-64 of all the text before it, so that no flipped bit is taken for what somebody wrote.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/FileKind.h"
#include "runtime/train/Layout.h"
#include "runtime/train/LossScale.h"
#include "runtime/train/Metrics.h"

#include <map>
#include <string>
#include <vector>

namespace zc::train {

struct Manifest {
  struct File {
    uint64_t bytes = 0;
    uint64_t head = 0; ///< bytes before its tensors' elements; all where no tensor names the file
    uint64_t hash = 0; ///< of the head
  };
  /// Elements [first, first + count) of a tensor, from byte `offset` of its file.
  struct Piece {
    uint64_t first = 0, count = 0, offset = 0, hash = 0;
  };
  struct Tensor {
    std::string name, file;
    TensorType type;
    std::vector<Piece> pieces; ///< in order, all of the tensor
  };
  /// Of the model, for exporting.
  struct Parameter {
    std::string name;
    bool trainable = false;
    bool buffer = false; ///< running statistics and the like; a checkpoint from before does not say
    std::optional<double> lrScale, weightDecay; ///< of what trains; a checkpoint from before has none
    std::string file; ///< of its initial bytes, relative to the model's folder; empty: not in a file
    uint64_t offset = 0, bytes = 0;
    DType type = DType::f32; ///< of those bytes
    std::vector<std::string> tied;
  };
  /// Of the plan: none of it must be alike when a run goes on, but what differs is said.
  struct Strategy {
    uint64_t hash = 0; ///< planHash: alike, and so is everything else
    Mesh mesh;
    int64_t stage = 0, accumulation = 1, samplesPerStep = 1;
    std::string precision;
    bool delayed = false, hasResiduals = false;
    std::string command; ///< that compiles it; a checkpoint from before has none
  };
  /// Which sample comes when.
  struct Data {
    uint64_t fingerprint = 0;
    int64_t samples = 0; ///< of an epoch
    bool shuffle = false, shiftLabels = false;
    int64_t position = 0; ///< samples consumed
  };

  std::string folder; ///< where it was read
  int64_t step = 0;
  uint64_t seed = 0;
  uint64_t products = 0; ///< hashOf the table of products; 0: there was none
  Strategy plan;
  /// The plan's, with the rate and the schedule of the run; `rule` and `lr` must be alike.
  planpb::Optimizer optimizer;
  int64_t warmup = 0; ///< of the schedule, steps
  Data data;
  StepRecord last;                         ///< of `step`
  std::optional<LossScaleState> lossScale; ///< of a plan that has one
  std::optional<EvalHistory> evaluations;  ///< of a run that evaluates on the way
  std::string modelPath;
  uint64_t modelBytes = 0, modelHash = 0;
  std::map<std::string, File> files;
  std::vector<Tensor> tensors;
  std::vector<Parameter> parameters;
};

/// Of whole tensors, and of what is a rank's alone.
std::string fileOf(State state);
std::string ownFileOf(int64_t rank);

std::string toJson(const Manifest &manifest);
/// Reads `folder`/manifest.json. Errors: corrupt (not there or damaged, or the step of another folder), mismatch
/// (another format), badInput (no such folder), io.
Result<Manifest> readManifest(const std::string &folder);

/// What a checkpoint of this run says, besides the step and the files.
Manifest describeRun(const planpb::Plan &plan);

} // namespace zc::train
