//===- Shell.h - words as a shell reads them --------------------------------------===//
#pragma once

#include <string>
#include <vector>

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

/// The words of a line that was made of shellQuoted ones. A quote that does not end goes on to the line's end.
inline std::vector<std::string> shellWords(const std::string &line) {
  std::vector<std::string> words;
  bool isInWord = false, isQuoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (!isQuoted && c == ' ') {
      isInWord = false;
      continue;
    }
    if (!isInWord)
      words.emplace_back();
    isInWord = true;
    if (c == '\'')
      isQuoted = !isQuoted;
    else if (c == '\\' && !isQuoted && i + 1 < line.size())
      words.back() += line[++i];
    else
      words.back() += c;
  }
  return words;
}

} // namespace zc
