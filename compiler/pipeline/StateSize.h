//===- StateSize.h - what training a model keeps --------------------------------------===//
#pragma once

#include <cstdint>

namespace zc {

/// Bytes that parameters that train, and what the optimizer keeps of them, take in all.
struct StateSize {
  int64_t parameters = 0, optimizer = 0;
};

} // namespace zc
