//===- ParamGroups.h - a file of parameter groups --------------------------------------===//
//
// A JSON array, as torch's param_groups but by names:
//
//   [{"params": ["*.bias", "ln_*"], "weight_decay": 0},
//    {"params": "transformer.h.0.*", "lr_scale": 0.1},
//    {"params": "transformer.wte.*", "frozen": true}]
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace zc {

/// An entry: what the update of these parameters has of its own.
struct ParamGroup {
  std::string file;                           ///< that says it
  std::vector<std::string> globs;             ///< over names; at least one
  std::optional<double> lrScale, weightDecay; ///< not negative; of what does not train, neither
  std::optional<bool> frozen;
};

/// Errors: the file cannot be read; usage: no JSON (line and column), no array of groups, a key that is not known, a
/// value that is not of its key, a group that says nothing or contradicts itself.
Result<std::vector<ParamGroup>> readParamGroups(const std::string &path);

} // namespace zc
