//===- Hash.h - XXH3-64 of bytes that come in pieces -----------------------------===//
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace zc::io {

/// The hash does not depend on how the bytes were cut.
class Hasher {
public:
  Hasher();
  Hasher(Hasher &&) noexcept;
  ~Hasher();
  void add(const void *bytes, int64_t count);
  uint64_t value() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

uint64_t hashOf(std::string_view bytes);
/// A hash as files and people have it: sixteen digits.
std::string hexOf(uint64_t hash);

} // namespace zc::io
