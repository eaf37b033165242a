//===- Shell.h - words as a shell reads them --------------------------------------===//
#pragma once

#include <string>

namespace zc {

/// `word` as a shell reads it back: in quotes where it has more than plain characters.
inline std::string shellQuoted(const std::string &word) {
  const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
    return word;
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

} // namespace zc
