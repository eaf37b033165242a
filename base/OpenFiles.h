//===- OpenFiles.h - how many files this process may open ------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace zc {

/// How many more can be opened now: what ulimit -n allows (raiseOpenFiles) less those that are open.
uint64_t openFilesLeft();

} // namespace zc
