//===- Candidates.h - what searches over strategies choose from -------------------------===//
//
// --auto and the search for what fits (Fit.h) try the same options at the same values, and tell them as flags.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/pipeline/CompileOptions.h"

#include <string>
#include <variant>

namespace zc {

struct ZeroStage {
  int64_t stage;
};
/// Ranks that share samples.
struct ModelRanks {
  int64_t ranks;
};
struct BucketSize {
  int64_t bytes; ///< whole KiB
};
struct NoPrefetch {};
/// What is offloaded, and where to.
struct Placed {
  Offload ShardOptions::*field;
  Offload tier;
};

/// One option of a strategy at a value.
using Choice = std::variant<ZeroStage, ModelRanks, BucketSize, NoPrefetch, CheckpointPolicy, Placed>;

void apply(const Choice &choice, Strategy &strategy);
/// As the flag that asks for it: "--zero-stage 2".
std::string flagOf(const Choice &choice);

/// Bytes of buckets below the usual size, each of which is tried where the one given is larger.
inline constexpr int64_t kSmallerBuckets[] = {1024 << 10, 128 << 10, 16 << 10};

/// Operations that all plans of a search have together, the model's or the plan's, whichever are more: about ten
/// seconds for who waits to read what would fit, a minute for who asked for the fastest plan.
inline constexpr size_t kFitPatience = 400000, kAutoPatience = 2000000;

} // namespace zc
