//===- Module.h - what the double of NVRTC makes, and the double of the driver loads -----------===//
#pragma once

#include <cstddef>

namespace zc::doubled {

/// The one kernel of a module, in its symbol kModuleEntry.
struct ModuleEntry {
  const char *name;
  unsigned threads; ///< of a block
  size_t bytes[2];  ///< of its arguments; 0: there is no second
  /// With the first and the last argument; whether so many blocks are what they say.
  bool (*run)(const void *first, const void *last, unsigned blocks);
};
constexpr const char *kModuleEntry = "zcModuleEntry";

} // namespace zc::doubled
