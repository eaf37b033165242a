//===- ParamGroups.cpp - a file of parameter groups ------------------------------------===//

#include "compiler/config/ParamGroups.h"
#include "base/Suggest.h"
#include "compiler/options/JsonFile.h"

#include <cmath>

namespace zc {

using Json = nlohmann::json;

static constexpr const char *kHelp =
    R"(--param-groups takes [{"params": GLOB or [GLOB, ...], "lr_scale": S, "weight_decay": D, "frozen": true}, ...])";

namespace {

/// Reads one group of a file.
class GroupReader {
public:
  GroupReader(const std::string &path, size_t number) : path(path), number(number) {}

  Result<ParamGroup> read(const Json &json) {
    if (!json.is_object())
      return wrong("it is no object");
    for (const auto &[key, value] : json.items())
      ZC_RETURN_IF_ERROR(readKey(key, value));
    if (group.globs.empty())
      return wrong("it has no \"params\"");
    const bool hasNumbers = group.lrScale || group.weightDecay;
    if (!hasNumbers && !group.frozen)
      return wrong("it says nothing of its parameters");
    if (hasNumbers && group.frozen.value_or(false))
      return wrong("\"frozen\" parameters have no update that the other numbers would be of");
    return group;
  }

private:
  Status readKey(const std::string &key, const Json &value) {
    if (key == "params")
      return readGlobs(value);
    if (key == "lr_scale")
      return readNumber(key, value, group.lrScale);
    if (key == "weight_decay")
      return readNumber(key, value, group.weightDecay);
    if (key == "frozen") {
      if (!value.is_boolean())
        return wrong("\"frozen\" is not true or false");
      group.frozen = value.get<bool>();
      return Status::success();
    }
    Error error = wrong("it has a key \"" + key + "\", which is not known");
    std::string near = nearest(key, {"params", "lr_scale", "weight_decay", "frozen"});
    error.help = key == "lr"    ? "\"lr_scale\" multiplies the rate of the run, whatever its schedule says"
                 : near.empty() ? kHelp
                                : "did you mean \"" + near + "\"?";
    return error;
  }

  Status readGlobs(const Json &value) {
    const Json several = value.is_array() ? value : Json::array({value});
    for (const Json &glob : several) {
      if (!glob.is_string() || glob.get_ref<const std::string &>().empty())
        return wrong("\"params\" is not a glob over names of parameters, or a list of such");
      group.globs.push_back(glob.get<std::string>());
    }
    return Status::success();
  }

  Status readNumber(const std::string &key, const Json &value, std::optional<double> &number) {
    if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>()))
      return wrong("\"" + key + "\" is " + textOf(value) + ", not a number of 0 or more");
    number = value.get<double>();
    return Status::success();
  }

  /// Of an array or object only what it is: one may be nested deeper than the stack.
  static std::string textOf(const Json &value) {
    return value.is_structured() ? "an " + std::string(value.type_name()) : value.dump().substr(0, 100);
  }

  Error wrong(const std::string &what) const {
    return wrongConfig("group " + std::to_string(number) + ": " + what, path, kHelp);
  }

  const std::string &path;
  size_t number; ///< from 1
  ParamGroup group{path, {}, {}, {}, {}};
};

} // namespace

Result<std::vector<ParamGroup>> readParamGroups(const std::string &path) {
  Result<Json> json = readJsonFile(path, kHelp);
  if (!json)
    return json.error();
  if (!json->is_array() || json->empty())
    return wrongConfig("this is no JSON array of groups", path, kHelp);
  std::vector<ParamGroup> groups;
  for (const Json &each : *json) {
    Result<ParamGroup> group = GroupReader(path, groups.size() + 1).read(each);
    if (!group)
      return group.error();
    groups.push_back(std::move(*group));
  }
  return groups;
}

} // namespace zc
