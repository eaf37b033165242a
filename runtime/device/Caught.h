//===- Caught.h - nothing may leave the thread of a queue or a stream ---------------===//
#pragma once

#include "base/Status.h"

#include <exception>

namespace zc {

/// Internal: a library behind a kernel threw. Budget: there was no memory.
Error threw(const std::exception &exception);

/// fn(), whose exceptions are errors.
template <typename Fn> Status caught(Fn fn) {
  try {
    return fn();
  } catch (const std::exception &exception) {
    return threw(exception);
  }
}

} // namespace zc
