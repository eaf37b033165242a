//===- JsonFile.h - JSON that a person wrote ------------------------------------------===//
#pragma once

#include "base/Status.h"

#include <nlohmann/json.hpp>

namespace zc {

/// What is wrong with the content of the file at `path`: usage.
Error wrongConfig(std::string message, const std::string &path, std::string help);

/// The JSON of a file of at most 1 MiB; comments may stand in it. Errors: the file cannot be read; what parseJson says
/// (`code`, with `help`).
Result<nlohmann::json> readJsonFile(const std::string &path, const std::string &help, Code code = Code::usage);

} // namespace zc
