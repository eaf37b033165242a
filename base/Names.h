//===- Names.h - enumerations whose values have names -------------------------------===//
//
// `namesOf(E())` beside such an enumeration gives its values' names, in order: what flags, files and messages call
// them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <tuple>

namespace zc {

template <typename E, size_t = std::tuple_size<decltype(namesOf(E()))>::value> constexpr const char *nameOf(E value) {
  return namesOf(E())[static_cast<size_t>(value)];
}

/// The value of this name; nothing if there is none.
template <typename E> constexpr std::optional<E> valueNamed(std::string_view name) {
  const auto names = namesOf(E());
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i])
      return static_cast<E>(i);
  return std::nullopt;
}

} // namespace zc
