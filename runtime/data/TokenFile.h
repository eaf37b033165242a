//===- TokenFile.h - files of tokens ------------------------------------------------===//
//
// llm.c's .bin: 256 int32 of header, magic 20240520 and version 1 before tokens of 16 bits, or 20240801 and 7 before 32
// bits, then the count. Where it is more than an int32 holds, the third number is -1 and the count is an int64 in bytes
// 16 to 23; no other program writes or reads that. .npy: integers in one dimension, or in two: rows. Raw integers have
// no header, so their type must be told. A file is known by its first bytes, whatever it is called.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/data/Integers.h"

#include <string>

namespace zc::data {

/// "FILE" or "FILE:WEIGHT". A file whose name is all of it has no weight.
struct TokenPath {
  std::string file;
  std::optional<double> weight; ///< how often an epoch has its windows
};
/// Errors: usage (a weight that is not above 0).
Result<TokenPath> parseTokenPath(const std::string &text);

struct TokenFileOptions {
  bool byteLevel = false;
  std::string type;       ///< "uint16", "uint32", "int32", "int64": of raw files; empty: none is raw
  int64_t vocabulary = 0; ///< for advice; 0: not known
};

/// Errors: badInput (malformed, or no tokens at all), usage (a kind that must be told), mismatch (its header
/// says another type than `type`), unsupported.
Result<Integers> openTokenFile(const std::string &path, const TokenFileOptions &options);

} // namespace zc::data
