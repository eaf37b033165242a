//===- Arena.h - one contiguous mapping ---------------------------------------===//
#pragma once

#include "base/Status.h"

#include <cstddef>
#include <cstdint>

namespace zc {

/// Zeroed memory from the system, page-aligned; pages become resident when first touched.
class Arena {
public:
  Arena() = default;
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  /// Whether arenas of together `bytes` may be mapped on this machine. Errors: more than its memory, or
  /// than a control group allows (budget).
  static Status check(uint64_t bytes);
  /// Whether they find their memory now, before any of them is touched. Errors: those of check; less is free (budget).
  static Status checkFree(uint64_t bytes);
  /// Errors: those of check; refused by the system (budget).
  static Result<Arena> map(uint64_t bytes);

  /// Takes all pages now, as far as memory is free, instead of when they are first touched. Errors: budget, with what
  /// is free; before the system has to kill anybody.
  Status reserve();

  char *data() const { return base; }
  uint64_t bytes() const { return size; } ///< rounded up to pages
  /// Bytes of pages that are in memory now.
  uint64_t residentBytes() const;

private:
  char *base = nullptr;
  uint64_t size = 0;
};

} // namespace zc
