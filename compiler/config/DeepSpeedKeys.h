//===- DeepSpeedKeys.h - the keys of a DeepSpeed configuration ------------------------===//
#pragma once

#include "compiler/config/ConfiguredOption.h"
#include "compiler/options/JsonFile.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace zc {

/// Reads values by key, and keeps which keys were asked for: what nobody asked for is refused at the end, since it may
/// change what is trained. A key is a JSON pointer, "/optimizer/params/lr". Errors of reading: usage, located in the
/// file. `path` and `config` must outlive it.
class DeepSpeedKeys {
public:
  using Json = nlohmann::json;

  DeepSpeedKeys(const std::string &path, const Json &config) : path(path), config(config) {}

  /// The value at `key`; null where it is absent, null or "auto".
  const Json *find(const std::string &key);
  /// Is "auto" said, which Hugging Face's Trainer replaces by its arguments?
  bool isAuto(const std::string &key);
  /// `value` stays as it is where the key is absent. A switch is true or false.
  Status read(const std::string &key, double &value);
  Status read(const std::string &key, int64_t &value, int64_t least = 0);
  Status read(const std::string &key, bool &value);
  Status isOn(const std::string &key, bool &on);

  /// The number at `key`, times `scale`, for an option.
  Status number(const std::string &key, const std::string &option, double scale = 1);
  Status integer(const std::string &key, const std::string &option, double scale = 1);
  /// The key of what is not there must be absent, null, or say `off`.
  Status mustBe(const std::string &key, const Json &off, const char *why);
  /// As mustBe, of a section that has an "enabled" of its own.
  Status mustBeOff(const std::string &section);
  Status refuseTheRest();

  /// `key` says that, or is the first of those that say so together.
  void give(const std::string &option, const std::string &value, const std::string &key) {
    options.push_back({option, value, key.substr(1)});
  }
  /// What is below `key` was not asked for.
  void forget(const std::string &key) { known.erase(std::remove(known.begin(), known.end(), key), known.end()); }
  void note(std::string text);
  Error wrong(const std::string &key, const std::string &wanted) const;
  Error unsupported(const std::string &what, const std::string &help = "") const;

  std::vector<ConfiguredOption> options;
  std::vector<std::string> notes; ///< each once

private:
  const Json *at(const std::string &key);
  bool isKnown(const std::string &key) const;
  /// Does anything known stand below `key`?
  bool isSection(const std::string &key) const;
  /// "auto" where a number or a name has to stand.
  Status refuseAutos();

  const std::string &path;
  const Json &config;
  std::vector<std::string> known;        ///< keys that were asked for
  std::set<std::string> autos, resolved; ///< keys that are "auto"; those that isAuto was asked for
};

/// The rate that "auto" stands for: TrainingArguments' own.
constexpr const char *kAutoRate = "5e-05";

/// "scheduler", as --lr-schedule and --lr; `rate`: the flag's, which wins, empty where it is not given.
Status translateScheduler(DeepSpeedKeys &keys, const std::string &rate);

} // namespace zc
