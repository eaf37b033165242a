//===- VerifyCheckpoint.h - whether a checkpoint's files are as they were written -------------===//
#pragma once

#include "runtime/io/File.h"
#include "runtime/train/Manifest.h"

namespace zc::train {

/// Every file listed is there, beneath the folder, with its size, each of its bytes under a hash that it has. Errors:
/// corrupt (naming the file, and the tensor where there is one), io.
Status verifyFiles(const Manifest &manifest);
/// The same of all but the elements of whole tensors, which restoreCheckpoint compares as it reads them.
Status verifyHeads(const Manifest &manifest);

/// One of a checkpoint's files: there, beneath its folder, with the size that its manifest says. There may be one per
/// rank, and all ranks of a process may load at once: who looks at many has few of them open. Errors: corrupt, io.
Result<io::File> openCheckpointFile(const Manifest &manifest, const std::string &name);
/// Of bytes whose hash is another than the manifest says; `tensor` is empty of a head.
Error wrongHash(const std::string &file, const std::string &tensor, uint64_t offset, uint64_t bytes, uint64_t is,
                uint64_t expected);

} // namespace zc::train
