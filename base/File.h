//===- File.h - whole files, read with care -----------------------------------===//
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>

namespace zc {

/// The bytes of a regular file of at most `cap` bytes. A file that shrinks while it is read gives the bytes there were.
/// Errors: missing, a directory, a FIFO or device, no permission, larger than `cap` (bad input); I/O error (io).
Result<std::string> readFile(const std::string &path, uint64_t cap);

} // namespace zc
