//===- File.h - whole files, read with care and replaced atomically -----------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace zc {

/// The bytes of a regular file of at most `cap` bytes. A file that shrinks while it is read gives the bytes there were.
/// Errors: missing, a directory, a FIFO or device, no permission, larger than `cap` (bad input); I/O error (io).
Result<std::string> readFile(const std::string &path, uint64_t cap);

/// Replaces `path` by a file of these bytes: temporary in the same folder, fsync, rename, fsync of the folder. On any
/// failure (io) the temporary is gone and the old file, if there was one, is untouched. A device or FIFO is written to.
Status writeFileAtomically(const std::string &path, std::string_view bytes);
/// Is `name`, without folders, what writeFileAtomically leaves beside its file when its process is killed?
bool isLeftover(std::string_view name);

} // namespace zc
