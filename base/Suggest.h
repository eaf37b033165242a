//===- Suggest.h - "did you mean" ------------------------------------------------------===//
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace zc {

/// The candidate nearest to `name` by edit distance, if it is near enough to be a slip; empty otherwise.
std::string nearest(const std::string &name, const std::vector<std::string> &candidates);

/// What is wrong with a word that is none of `words`: "\"gpu\" is not one of cpu, cuda; did you mean \"cpu\"?".
std::string notOneOf(const std::string &word, const std::vector<std::string> &words);

/// What CLI11 says of a flag that is given too often, or without its value, in our words; of all else what it says.
std::string inOurWords(std::string parserMessage);

/// A word that a parser of flags did not take.
struct Untaken {
  std::string name; ///< without a flag's value, and not all of it where it is long
  bool isFlag = false;
};
/// The first of them, if there is one: "--" is none, and after it a word that begins with a dash is no flag.
std::optional<Untaken> firstUntaken(const std::vector<std::string> &words);

/// What to say of a flag ("--name") that `program` does not have, whose flags are `known`: what it is called here where
/// torchrun, DeepSpeed, Megatron or transformers' trainer call it so, or the nearest of `known`.
std::string adviceOnFlag(const std::string &flag, const std::vector<std::string> &known, const std::string &program);

} // namespace zc
