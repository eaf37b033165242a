//===- JsonFile.cpp - JSON that a person wrote ----------------------------------------===//

#include "compiler/options/JsonFile.h"
#include "runtime/base/File.h"

#include <set>
#include <vector>

namespace zc {

using Json = nlohmann::json;

static constexpr uint64_t kMostBytes = 1 << 20;

Error wrongConfig(std::string message, const std::string &path, std::string help) {
  return makeError(Code::usage, 126, std::move(message), path, std::move(help));
}

Result<Json> readJsonFile(const std::string &path, const std::string &help) {
  Result<std::string> text = readFile(path, kMostBytes);
  if (!text)
    return text.error();
  std::string twice;
  std::vector<std::set<std::string>> open;
  auto watch = [&](int, Json::parse_event_t event, Json &value) {
    if (event == Json::parse_event_t::object_start)
      open.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      open.pop_back();
    else if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  try {
    Json parsed = Json::parse(*text, watch, /*allow_exceptions=*/true, /*ignore_comments=*/true);
    if (!twice.empty())
      return wrongConfig("\"" + twice + "\" is given twice", path, "the two may say different things");
    return parsed;
  } catch (const Json::exception &error) {
    const std::string what = error.what();
    size_t line = what.find("line ");
    return wrongConfig("this is no JSON: " + escapeName(line == std::string::npos ? what : what.substr(line)), path,
                       help);
  }
}

} // namespace zc
