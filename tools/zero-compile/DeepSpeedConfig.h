//===- DeepSpeedConfig.h - a DeepSpeed configuration as flags -----------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace zc::tool {

/// What a DeepSpeed configuration (deepspeed.ai/docs/config-json) says to this tool.
struct DeepSpeedConfig {
  std::vector<std::pair<std::string, std::string>> flags; ///< flag and value; an empty one of a switch
  std::vector<std::string> notes; ///< what zero-run has to be told, what depends on the model, what is not known
};

/// Translates the file. "auto" leaves a key to flags and defaults. Keys that only tune DeepSpeed's run time
/// (overlap_comm, pin_memory, aio, ...) say nothing here. Errors: the file cannot be read; it is no JSON object, or a
/// value is not of its key's type (usage); a feature that changes what is trained and is not there (unsupported).
Result<DeepSpeedConfig> readDeepSpeedConfig(const std::string &path);

} // namespace zc::tool
