//===- DeepSpeedConfig.h - a DeepSpeed configuration as options -----------------------===//
#pragma once

#include "compiler/config/ConfiguredOption.h"
#include "compiler/options/OptionList.h"

namespace zc {

/// What a DeepSpeed configuration (deepspeed.ai/docs/config-json) says.
struct DeepSpeedConfig {
  std::vector<ConfiguredOption> options;
  int64_t microRows = 0;          ///< train_micro_batch_size_per_gpu, which the graph must have; 0: not said
  std::vector<std::string> notes; ///< what zero-run has to be told, what depends on the model, what is not known
};

/// Translates the file for `dataRanks` ranks that have other samples, and options that are `given` already. "auto"
/// becomes what Hugging Face's TrainingArguments have, with a note. An option may stand twice; the first counts. Keys
/// that only tune DeepSpeed's run time (overlap_comm, pin_memory, aio, ...) say nothing here. Errors: the file cannot
/// be read; it is no JSON object, a value is not of its key's type, or the batch sizes do not multiply out (usage); a
/// feature that changes what is trained and is not there, or a key that is not known (unsupported).
Result<DeepSpeedConfig> readDeepSpeedConfig(const std::string &path, int64_t dataRanks, const GivenOptions &given);

/// What applyDeepSpeedConfig made of a file.
struct AppliedConfig {
  std::string path;
  std::vector<std::string> notes;          ///< for people: what the file means, and those of DeepSpeedConfig
  int64_t microRows = 0;                   ///< DeepSpeedConfig's
  std::map<std::string, std::string> keys; ///< of the options that it gave

  /// The error; one about an option that the file gave, and nobody typed, says the file and the key.
  Error located(Error error) const;
};

/// Reads the file into the options of `list` that are not in `given`, and adds their names to it. Errors: those above,
/// and those of reading an option.
Result<AppliedConfig> applyDeepSpeedConfig(const std::string &path, const OptionList &list, int64_t dataRanks,
                                           GivenOptions &given);

} // namespace zc
