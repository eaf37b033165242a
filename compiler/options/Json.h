//===- Json.h - JSON from wherever it comes -------------------------------------------===//
#pragma once

#include "base/Status.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace zc {

/// Levels of arrays and objects in each other.
inline constexpr size_t kMostJsonLevels = 64;
/// Bytes of a text. A value takes up to some 30 times of what it is as text.
inline constexpr size_t kMostJsonBytes = 4 << 20;

/// The compiler's only reader of JSON that others wrote, of a model's author and of people's files alike: so neither a
/// deep nor a long one costs a stack or the memory. `comments`: these may stand in it. Errors (badInput, as a clause
/// that ends "this is no JSON: ..." or names a key): no JSON, with line and column; too deep or too long; an object
/// that has a key twice, of which a tree would keep the last.
Result<nlohmann::json> parseJson(std::string_view text, bool comments = false);

} // namespace zc
