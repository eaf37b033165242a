#include "runtime/io/Hash.h"

#include <cinttypes>
#include <cstdio>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zc::io {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state(std::make_unique<State>()) { XXH3_64bits_reset(&state->xxh); }
Hasher::Hasher(Hasher &&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::add(const void *bytes, int64_t count) { XXH3_64bits_update(&state->xxh, bytes, size_t(count)); }
uint64_t Hasher::value() const { return XXH3_64bits_digest(&state->xxh); }

uint64_t hashOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string hexOf(uint64_t hash) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

} // namespace zc::io
