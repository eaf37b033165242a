//===- Size.h - sizes as people write them -----------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zc {

/// "800MB", "6GiB", "4096", "1.5 GB": bytes; decimal units are powers of 1000, binary ones (KiB, MiB, GiB, TiB) of
/// 1024. Nothing for anything else, a negative number or one past 2^62.
std::optional<uint64_t> parseSize(std::string_view text);

/// "1 step", "2 steps".
inline std::string counted(int64_t count, const char *noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// "1.25 GiB", "812 B".
std::string showSize(uint64_t bytes);

} // namespace zc
