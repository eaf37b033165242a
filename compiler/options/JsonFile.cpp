//===- JsonFile.cpp - JSON that a person wrote ----------------------------------------===//

#include "compiler/options/JsonFile.h"
#include "base/File.h"
#include "compiler/options/Json.h"

namespace zc {

static constexpr uint64_t kMostBytes = 1 << 20;

Error wrongConfig(std::string message, const std::string &path, std::string help) {
  return makeError(Code::usage, 126, std::move(message), path, std::move(help));
}

Result<nlohmann::json> readJsonFile(const std::string &path, const std::string &help, Code code) {
  Result<std::string> text = readFile(path, kMostBytes);
  if (!text)
    return text.error();
  Result<nlohmann::json> json = parseJson(*text, /*comments=*/true);
  if (json)
    return json;
  Error error = wrongConfig(json.error().message, path, json.error().help.empty() ? help : json.error().help);
  error.code = code;
  return error;
}

} // namespace zc
