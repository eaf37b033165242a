//===- TrainPlan.h - a plan that really trains, with a model file to train -------------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"
#include "test/runtime_train/TempFolder.h"

#include <vector>

namespace zc::test {

enum class Placement {
  replicated, ///< the parameter whole on each rank's device
  sharded,    ///< cut into shards and gathered
  tiered,     ///< shards: weights and moments on nvme, gradients, master weights and the update on the host
};

/// W ranks, G micro-steps. One parameter "w", f32 [10, 10], tied to "v", in one bucket; loss = sum(w * x), so that the
/// gradient is x; AdamW with a global norm and without clipping. All placements give the same bits.
/// Its first value lies in `model`, four bytes after the start.
planpb::Plan trainPlan(const std::string &model, uint32_t worldSize, uint32_t accumulation, Placement placement);

/// The forward of that model alone, for evaluation; its outputs are "product", x * w, a row per sample, and "loss".
planpb::Plan evalPlan(const std::string &model, uint32_t worldSize, bool sharded);

/// "HEAD", w[i] = (i - 50) / 64, "TAIL".
std::string modelBytes();
std::vector<float> initialWeights();
/// Elements of the bucket, and so of one sample of x.
int64_t paddedElements(uint32_t worldSize);
/// `samples` rows of x, zero in the padding.
std::string dataFile(const TempFolder &folder, uint32_t worldSize, int64_t samples);
float sampleElement(int64_t sample, int64_t i);

} // namespace zc::test
